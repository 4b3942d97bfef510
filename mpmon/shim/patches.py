"""The shim's replacements for the job's functions, which can be removed again.

Other code may have wrapped a replacement meanwhile. Such a wrapper stays, and still calls the shim's function.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MISSING = object()


class Patch:
    """One attribute of a class or module, before and after."""

    __slots__ = ("_before", "_name", "_now", "_owner")

    def __init__(self, owner: Any, name: str, now: Any) -> None:
        self._owner, self._name, self._now = owner, name, now
        self._before = vars(owner).get(name, _MISSING)

    def put_in(self) -> None:
        """Install the shim's replacement."""
        setattr(self._owner, self._name, self._now)

    def take_out(self) -> None:
        """Restore the job's own attribute; an inherited one is inherited again."""
        if vars(self._owner).get(self._name) is not self._now:
            return
        if self._before is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


class _State:
    given_up = False


PATCHES: list[Patch] = []


def replace(owner: Any, name: str, now: Any) -> None:
    """Replace an attribute; does nothing after `give_up`."""
    if _State.given_up:
        return
    patch = Patch(owner, name, now)
    PATCHES.append(patch)
    patch.put_in()


def put_all_in() -> None:
    """Install all replacements: the shim records."""
    for patch in PATCHES:
        patch.put_in()


def take_all_out() -> None:
    """Remove all replacements: the shim does not record, its functions are not even called."""
    for patch in PATCHES:
        patch.take_out()


def give_up() -> None:
    """Turn the shim off for good, also for modules not imported yet."""
    _State.given_up = True
    take_all_out()
