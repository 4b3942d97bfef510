"""What ranks that are in the same operation called it with: the root, the group, and the values of their own variables there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping

from mpmon.diagnosis.stacks.frames import bare
from mpmon.diagnosis.stacks.waits import user_lines
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.suspects import stands_at
from mpmon.numerals import numeral

ROOTS = ("src", "dst", "group_src", "group_dst")
"""Arguments of torch/distributed/distributed_c10d.py that name the rank which sends to all, or receives from all."""


def named_root(key: ThreadKey, job: JobState) -> dict[str, str]:
    """The arguments of a rank's call that name the root of its operation; empty if there are none."""
    frame = job.wait_state(key).frame
    return {name: value for name, value in ((frame and frame.known) or {}).items() if name in ROOTS}


def named_group(key: ThreadKey, job: JobState) -> str | None:
    """The name by which a rank meets the others of a group that it makes: a count of its groups, if it has made none by name."""
    stack = job.stacks.get(key)
    known = (frame.known or {} for frame in (stack.frames if stack else ()))
    return next((names["group_name"] for names in known if "group_name" in names), None)


def with_another_name(keys: list[ThreadKey], job: JobState) -> tuple[ThreadKey, ...]:
    """Of ranks that make a group whose name is a count, those with another count than most; on a tie, with the lower one."""
    counts = {key: count for key in keys if (count := numeral(named_group(key, job) or "")) is not None}
    by_count: dict[int, list[ThreadKey]] = {}
    for key, count in counts.items():
        by_count.setdefault(count, []).append(key)
    if len(counts) < len(keys) or len(by_count) != 2:
        return ()
    return tuple(min(by_count.items(), key=lambda row: (len(row[1]), row[0]))[1])


def with_another_root(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], str] | None:
    """Of ranks in the same operation, the ranks that name a different root than most, and the name of that argument.

    On a tie: the ranks whose root is not rank 0, the default.
    """
    roots = {key: root for key in keys if (root := named_root(key, job))}
    return _minority(keys, roots) or _not_the_usual(keys, roots)


def _not_the_usual(
    keys: list[ThreadKey], roots: Mapping[ThreadKey, Mapping[str, str]]
) -> tuple[list[ThreadKey], str] | None:
    for name in ROOTS if len(roots) == len(keys) else ():
        values = [roots[key].get(name) for key in keys]
        if len(set(values)) == 2 and 2 * values.count("0") == len(keys):
            return [key for key, value in zip(keys, values, strict=True) if value != "0"], name
    return None


def differing(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], str] | None:
    """Of ranks at the same line, the ranks with a different value there than most, and the name of the variable."""
    frames = {key: next(iter(user_lines(stack)), None) for key in keys if (stack := job.stacks.get(key))}
    return _minority(keys, {key: frame.plain for key, frame in frames.items() if frame and frame.plain})


def parted(keys: list[ThreadKey], job: JobState) -> tuple[ThreadKey, str] | None:
    """Of ranks at different places, the only one with another value than all others in a function that all of them are in, and
    that variable: `plan` in microbatch().

    What only the first or the last rank has may come of its number, as at the ends of a pipeline, and so may what only those in
    between have: another rank in between has to be like the ends.
    """
    inner = sorted(keys, key=lambda key: job.role(key[0]).rank or 0)[1:-1]
    if len(inner) < 2 or any(job.role(key[0]).rank is None for key in keys):
        return None
    values: dict[ThreadKey, dict[str, int]] = {}
    for key in keys:
        frames = user_lines(stack) if (stack := job.stacks.get(key)) else ()
        rows = ((frame.function, frame.plain) for frame in frames if frame.plain)
        values[key] = {
            f"`{name}` in {bare(function)}()": value for function, row in rows for name, value in row.items()
        }
    odd, name = _minority(keys, values) or ([], "")
    return (odd[0], name) if len(odd) == 1 and odd[0] in inner else None


def _minority(
    keys: list[ThreadKey], values: Mapping[ThreadKey, Mapping[str, Hashable]]
) -> tuple[list[ThreadKey], str] | None:
    """The ranks with another value than most for one name, and that name.

    Values that differ on every rank, such as its number, say nothing.
    """
    if len(values) < len(keys) or len(keys) < 3:
        return None
    for name in sorted(set.intersection(*(set(named) for named in values.values()))):
        groups: dict[Hashable, list[ThreadKey]] = {}
        for key, named in values.items():
            groups.setdefault(named[name], []).append(key)
        fewest = min(groups.values(), key=len)
        if len(groups) == 2 and 2 * len(fewest) < len(keys):
            return fewest, name
    return None


def astray(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], list[ThreadKey]]:
    """Ranks at a line in another group than those that wait for them there, and the latter; empty if all are in one
    group, or if that is not known.

    If the others do not belong to the group that one rank entered, that rank is the odd one: in the others' group all
    could continue. Else it is the one most ranks wait for; on a tie, any of them.
    """
    strangers = _pairs(keys, job, _expects_stranger)
    if strangers and not set(strangers) & set(itertools.chain(*strangers.values())):
        return list(strangers), list(dict.fromkeys(itertools.chain(*strangers.values())))
    pairs = _pairs(keys, job, _expects)
    most = max(map(len, pairs.values()), default=0)
    odd = [one for one, others in pairs.items() if len(others) == most]
    return odd, list(dict.fromkeys(other for one in odd for other in pairs[one]))


def _pairs(
    keys: list[ThreadKey], job: JobState, expects: Callable[[ThreadKey, ThreadKey, JobState], bool]
) -> dict[ThreadKey, list[ThreadKey]]:
    """By rank, the ranks that expect it."""
    found = {one: [other for other in keys if expects(other, one, job)] for one in keys}
    return {one: others for one, others in found.items() if others}


def _expects(other: ThreadKey, one: ThreadKey, job: JobState) -> bool:
    """`other` is at the same line as `one`, in a collective of a different group to which `one` belongs."""
    apart = stands_at(job, other) == stands_at(job, one) and job.is_of_group(other, one) is False
    return apart and job.role(one[0]).rank in job.group_of(other)


def _expects_stranger(other: ThreadKey, one: ThreadKey, job: JobState) -> bool:
    """The same, and `other` does not belong to the group whose collective `one` entered."""
    return _expects(other, one, job) and job.role(other[0]).rank not in job.group_of(one)
