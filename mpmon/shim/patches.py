"""What the shim put in the place of the job's functions, so that it can be taken out again."""

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
        """The shim's."""
        setattr(self._owner, self._name, self._now)

    def take_out(self) -> None:
        """The job's own; inherited again, when it was."""
        if self._before is _MISSING:
            if self._name in vars(self._owner):
                delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


PATCHES: list[Patch] = []


def replace(owner: Any, name: str, now: Any) -> None:
    """Put something in the place of an attribute."""
    patch = Patch(owner, name, now)
    PATCHES.append(patch)
    patch.put_in()


def put_all_in() -> None:
    """The shim records."""
    for patch in PATCHES:
        patch.put_in()


def take_all_out() -> None:
    """The shim is off: not even its functions are called."""
    for patch in PATCHES:
        patch.take_out()
