"""The mark of a function that may hang, and the failure of a call that does."""

from __future__ import annotations

import errno
import functools

from mpmon.probes.standstill import silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec, TypeVar

    from mpmon.probes.files import Proc

    Given = ParamSpec("Given")
    Result = TypeVar("Result")


class Unanswered(TimeoutError):
    """A call that has not returned; `strerror` says so in words."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ETIMEDOUT, words)

    def __reduce__(self) -> tuple[type[Unanswered], tuple[str]]:
        return Unanswered, (self.strerror or "",)


def may_hang(function: Callable[Concatenate[Proc, Given], Result]) -> Callable[Concatenate[Proc, Given], Result]:
    """Mark a function of a module: calls with a `Proc` that has a helper are made there.

    What it takes and returns must be possible to pickle.  Its second argument says what it asks about: while a call has not
    returned, another one about the same fails at once.  Calls raise `Unanswered` besides what the function raises.
    """

    @functools.wraps(function)
    def call(proc: Proc, *given: Given.args, **named: Given.kwargs) -> Result:
        about = given[0] if given else None
        if silent and isinstance(about, int) and about in silent:
            raise Unanswered(f"the kernel does not answer about process {about}")
        if proc.aside is None:
            return function(proc, *given, **named)
        return proc.aside.call(call, proc, *given, **named)

    return call
