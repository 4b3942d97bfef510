"""The mark of a function that may hang."""

from __future__ import annotations

import functools

from mpmon.probes.aside.wire import Unanswered
from mpmon.probes.standstill import silent

TOGETHER = 32
"""Calls per message: if one does not return, at most this many have to be repeated one by one."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Concatenate, ParamSpec, TypeVar

    from mpmon.probes.files import Proc

    Given = ParamSpec("Given")
    Result = TypeVar("Result")


def may_hang(function: Callable[Concatenate[Proc, Given], Result]) -> Callable[Concatenate[Proc, Given], Result]:
    """Mark a function of a module: calls with a `Proc` that has a helper are made there.

    Arguments and result must be picklable. The second argument says what the call is about: until a call returns,
    another call about the same thing fails at once. Calls raise `Unanswered` besides what the function raises.
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


def in_turn(
    function: Callable[..., Result], proc: Proc, questions: Mapping[int, Mapping[str, Any]]
) -> dict[int, Result | OSError]:
    """What a function that may hang returns about each of these processes, or the `OSError` it raised.

    `questions` has the further arguments for each. Many are sent in one message, at a fraction of the cost of single
    calls; if one of them does not return, each is made separately.
    """
    found: dict[int, Result | OSError] = {}
    left = list(questions)
    while left:
        pids, left = left[:TOGETHER], left[TOGETHER:]
        some = {pid: questions[pid] for pid in pids}
        found.update(_together(function, proc, some) or _each(proc, tuple(some), function, some))
    return found


def _together(
    function: Callable[..., Result], proc: Proc, questions: Mapping[int, Mapping[str, Any]]
) -> dict[int, Result | OSError] | None:
    """`None` if one of these may remain without an answer."""
    if proc.aside is None or len(questions) < 2 or silent.keys() & questions.keys():
        return None
    if proc.aside.leaves(function, questions):
        return None
    try:
        return proc.aside.call(_each, proc, tuple(questions), function, questions)
    except Unanswered:
        return None


def _each(
    proc: Proc, _about: tuple[int, ...], function: Callable[..., Result], questions: Mapping[int, Mapping[str, Any]]
) -> dict[int, Result | OSError]:
    return {pid: _result_or_problem(function, proc, pid, more) for pid, more in questions.items()}


def _result_or_problem(
    function: Callable[..., Result], proc: Proc, pid: int, more: Mapping[str, Any]
) -> Result | OSError:
    try:
        return function(proc, pid, **more)
    except OSError as problem:
        return problem
