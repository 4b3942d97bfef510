"""Does a thread make progress? Counters say whether it ran, samples say whether that changed anything.

A thread that did not run was *not scheduled*; the kernel's counters prove it. That a thread runs proves nothing: a loop
that retries forever runs too. So its samples are compared from the outermost frame inwards. A frame is the *same call*
as long as function and arguments are the same. If a library called user code and waits for it (a DataLoader its dataset,
a pool its task, see `waits.Context`), returning from that call is progress, and being elsewhere inside it is not: a worker whose
`__getitem__` has a different argument has moved on; a worker at another line of the same call has not. Top-level code (a
training loop) gets the benefit of the doubt: any change in it counts, unless it computes and loops without progress
(`loop_progress`). So does long-running code that will end: native code that computes without the GIL, a loop over a list or a
range that advances, and one whose variables keep getting new values (`news`).
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise

from mpmon.diagnosis.progress.loop_progress import backtracks, has_news, round_since, stays_in_native
from mpmon.diagnosis.progress.news import brings_news
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.stacks.frames import inner_machinery, is_user
from mpmon.diagnosis.stacks.shapes import asks_own_library
from mpmon.diagnosis.stacks.waits import COMMAND_LINE, SLEEP_CALLS, context
from mpmon.diagnosis.state.history import Sample, ThreadHistory
from mpmon.diagnosis.thresholds import (
    ASKS_AGAIN_S,
    BEAT_SHARE,
    COMPUTES_SHARE,
    FEW_RUNS_SPAN_S,
    FEWEST_TURNS,
    FROZEN_AFTER_S,
    LOOKS_SPAN_S,
    PATIENCE_S,
    RECENT_TURNS,
    RETRY_S,
    SAME_DEADLINE_S,
    SPAN_AGAIN_S,
    STALE_AFTER_S,
    SURE_TURNS,
    TIMED_SLICES,
)
from mpmon.model import Blocked, Frame, Stack


class Motion(Enum):
    """What a thread did in the time mpmon watched."""

    NOT_SCHEDULED = "not scheduled"
    """It has not run for a while."""
    POLLING = "polling"
    """It wakes, finds nothing, and goes back to the same sleep or poll."""
    BUSY_LOOP = "busy loop"
    """It burns CPU inside one call."""
    PROGRESSING = "progressing"
    """It makes progress."""
    UNKNOWN = "unknown"
    """Not watched long enough."""


def motion(past: ThreadHistory | None, now: float) -> Motion:
    """What a thread did lately."""
    if past is None:
        return Motion.UNKNOWN
    return Motion.NOT_SCHEDULED if is_frozen(past, now) else till_now(gets_on(past.samples), past, now)


def is_frozen(past: ThreadHistory, now: float) -> bool:
    """It has not run for a while, and longer than it naps."""
    last = past.samples[-1] if past.samples else None
    nap = pause_s(last.blocked) if last and last.blocked and last.blocked.syscall in SLEEP_CALLS else None
    return now - past.ran_at >= max(FROZEN_AFTER_S, nap if nap is not None and nap <= RETRY_S else 0.0)


def gets_on(found: tuple[Sample, ...]) -> Motion:
    """The motion of a running thread, by its samples."""
    samples = _without_outliers([sample for sample in found if sample.stack])
    if round_since(samples) is not None:
        return Motion.BUSY_LOOP
    if len(samples) < 3 or samples[-1].at - samples[0].at < LOOKS_SPAN_S:
        return Motion.UNKNOWN
    still = _since_it_advanced(samples)
    if len(still) < len(samples) and not _is_seen_well(still):
        return Motion.PROGRESSING
    samples = still
    if 2 * sum(1 for sample in samples if sample.on_cpu) <= len(samples):
        return Motion.PROGRESSING if _steps(samples) else Motion.POLLING
    return Motion.PROGRESSING if _computes(samples) else Motion.BUSY_LOOP


def _steps(samples: list[Sample]) -> bool:
    """The thread is in a loop over a list or a range that advances between its sleeps, so the loop will end.

    The stack of a sleeping thread is never torn, so one step is enough.
    """
    stacks = list(
        {id(sample.stack): sample.stack for sample in samples if sample.stack and sample.stack.turns}.values()
    )
    return len(stacks) > 1 and _grows(_turns(stacks), least=1)


def _computes(samples: list[Sample]) -> bool:
    """Top-level code finds something new; or a library's task computes something that will end: native code, a loop over a list
    or a range that advances, or one whose variables keep getting new values. In an endless loop they stay, or come again.
    """
    stacks = list({id(sample.stack): sample.stack for sample in samples if sample.stack}.values())
    if backtracks(stacks):
        return False
    entry = _entry(stacks[-1])
    if entry is None:
        # Code of the program's own, or a library in it: what it leads to changes, though it is seen at the same lines.
        return has_news(samples)
    native = not any(stack.owns_gil for stack in stacks) or stays_in_native(stacks)
    return native or _advances(stacks) or brings_news(stacks, entry)


def _advances(stacks: list[Stack]) -> bool:
    """Some iterator kept advancing over recent samples; an iterator that keeps restarting is found at random positions."""
    turns = _turns(stacks)
    run = max(FEWEST_TURNS, min(len(turns), SURE_TURNS))
    return any(_grows(turns[at : at + run], least=2) for at in range(len(turns) - run + 1))


def _turns(stacks: list[Stack]) -> list[dict[int, int]]:
    """The recent positions of the stacks' iterators."""
    return [{turn[0]: turn[1] for turn in stack.turns} for stack in stacks if stack.turns][-RECENT_TURNS:]


def _grows(turns: list[dict[int, int]], *, least: int) -> bool:
    """Some iterator never goes back, and advances at least `least` times: one iteration may span several samples."""
    for name in set.intersection(*(set(row) for row in turns)):
        steps = [after[name] - before[name] for before, after in pairwise(turns)]
        if min(steps) >= 0 and sum(step > 0 for step in steps) >= least:
            return True
    return False


def till_now(found: Motion, past: ThreadHistory, now: float) -> Motion:
    """The motion found by the samples, corrected by how much the thread has run since the last sample."""
    since_s = now - past.samples[-1].at if past.samples else 0.0
    if since_s >= STALE_AFTER_S:
        before = 0.0 if found is Motion.UNKNOWN else share(past.samples)
        if found in (Motion.UNKNOWN, Motion.POLLING) and _share_since(past, since_s) >= before + COMPUTES_SHARE:
            return Motion.PROGRESSING
        if found is Motion.POLLING and _was_woken(past, since_s):
            return Motion.PROGRESSING
        if found is Motion.PROGRESSING and _polled_again(past, since_s):
            return Motion.POLLING
    return found


def share(samples: tuple[Sample, ...]) -> float:
    """Share of a CPU over the time span of the samples."""
    if not samples:
        return 0.0
    return (samples[-1].run_ns - samples[0].run_ns) / 1e9 / max(samples[-1].at - samples[0].at, 1.0)


def share_from(past: ThreadHistory, since: float, now: float) -> float:
    """Share of a CPU from the first sample at or after that moment until now."""
    first = next((sample for sample in past.samples if sample.at >= since), None)
    return (past.thread.run_ns - first.run_ns) / 1e9 / max(now - first.at, 1.0) if first else 0.0


def _share_since(past: ThreadHistory, since_s: float) -> float:
    """Share of a CPU since the last sample: a thread that computes now is no longer where it was found."""
    return (past.thread.run_ns - past.samples[-1].run_ns) / 1e9 / since_s


def _polled_again(past: ThreadHistory, since_s: float) -> bool:
    """The last sample is in a timed wait, and the thread has run no more often since than renewing that wait takes."""
    last = past.samples[-1]
    limit = last.blocked.timeout_s if last.blocked and not last.on_cpu else None
    return bool(last.stack and limit) and 0 < past.thread.slices - last.slices <= since_s / (limit or 1) + 1


def _was_woken(past: ThreadHistory, since_s: float) -> bool:
    """The last sample is in a timed wait, and the thread has run far more often since than renewing that wait takes: the
    wait is over.
    """
    last = past.samples[-1]
    limit = last.blocked.timeout_s if last.blocked and not last.on_cpu else None
    return limit is not None and past.thread.slices - last.slices > _most_runs(since_s, limit)


def _most_runs(seconds: float, limit: float) -> float:
    """Upper bound on how often a thread runs in that time if it only renews a wait with that time limit, seconds."""
    return TIMED_SLICES * (seconds / max(limit, 0.01) + 1)


def same_since(past: ThreadHistory) -> float:
    """Since when all samples have found the thread in the same calls, seconds since the epoch."""
    samples = _without_outliers([sample for sample in past.samples if sample.stack])
    since = past.ran_at
    if (circles_since := round_since(samples)) is not None:
        return min(since, circles_since)
    still = _since_it_advanced(samples)
    if len(still) < len(samples):
        return min(since, still[0].at)
    since = min(since, still[0].at) if len(still) > 1 else since
    return min(since, past.alike_since) if samples and all(sample.on_cpu for sample in samples) else since


def renewed_since(samples: tuple[Sample, ...]) -> float | None:
    """Since when a thread has only renewed the same wait with a time limit, whatever its variables are, seconds since the
    epoch; `None` if that is not long.
    """
    since = None
    for before, after in reversed(list(pairwise(samples))):
        same = before.stack and after.stack and _lines(before.stack) == _lines(after.stack)
        if not same or not (_asks_again(before) and _asks_again(after)) or _woken(before, after):
            break
        since = before.at
    return since if since is not None and samples[-1].at - since >= LOOKS_SPAN_S else None


def same_poll_since(samples: tuple[Sample, ...]) -> float | None:
    """Since when a program that shows only its system calls has renewed a poll with a short time limit, hardly ran, and never ran
    more often than its limit explains, seconds since the epoch; `None` if that is not long.
    """
    since = None
    for before, after in reversed(list(pairwise(samples))):
        if not _is_same_poll(before.blocked, after.blocked) or not _only_renews(before, after):
            break
        since = before.at
    return since if since is not None and samples[-1].at - since >= PATIENCE_S else None


def _is_same_poll(one: Blocked | None, other: Blocked | None) -> bool:
    if one is None or other is None or one.timeout_s is None or one.timeout_s != other.timeout_s:
        return False
    return (one.syscall, one.args) == (other.syscall, other.args)


def _only_renews(before: Sample, after: Sample) -> bool:
    seconds, limit = after.at - before.at, before.blocked.timeout_s if before.blocked else None
    ran, cpu_s = after.slices - before.slices, (after.run_ns - before.run_ns) / 1e9
    return bool(limit) and ran <= seconds / (limit or 1.0) + 1 and cpu_s <= seconds * BEAT_SHARE


def _since_it_advanced(samples: list[Sample]) -> list[Sample]:
    """The samples since the thread's last progress: earlier ones say nothing about the present."""
    last = [at for at, (before, after) in enumerate(pairwise(samples), 1) if _advanced(before, after)]
    new = next((at for at in reversed(last) if not _comes_again(samples[: at - 1], samples[at - 1], samples[at])), None)
    return samples[new:] if new is not None else samples


def _comes_again(earlier: list[Sample], before: Sample, after: Sample) -> bool:
    """The thread pauses at the same line as before, with frames equal to those of an earlier sample: its variables are only
    bound to new objects each time, which alternate between the same addresses.
    """
    if not (_asks_again(before) and _asks_again(after)) or before.on_cpu or after.on_cpu or _woken(before, after):
        return False
    if before.stack is None or after.stack is None or _lines(before.stack) != _lines(after.stack):
        return False
    return any(sample.stack is not None and not _moved(sample, after) for sample in earlier)


def _lines(stack: Stack) -> list[tuple[str, int]]:
    return [(frame.function, frame.line) for frame in stack.frames]


def _is_seen_well(samples: list[Sample]) -> bool:
    """The samples since the last progress suffice: the thread hardly ran, as for a timed re-poll, or its frames were read
    often enough (a sample may reuse the frames of the previous one).
    """
    span = samples[-1].at - samples[0].at
    if samples[-1].slices - samples[0].slices <= TIMED_SLICES:
        return span >= FEW_RUNS_SPAN_S
    return span >= SPAN_AGAIN_S and len({id(sample.stack) for sample in samples}) >= 3


def _advanced(before: Sample, after: Sample) -> bool:
    return _moved(before, after) or _woken(before, after)


def _woken(before: Sample, after: Sample) -> bool:
    """Between the samples the thread left a wait that has no time limit, or ran more often than the time limit of its wait
    explains: its wait was satisfied.
    """
    ran = after.slices - before.slices
    if not ran or before.on_cpu or before.blocked is None or after.blocked is None:
        return False
    ends_at = before.blocked.wakes_at
    if ends_at is None and before.blocked.timeout_s is None and _are_elsewhere(before, after):
        return True
    if after.on_cpu:
        return False
    if ends_at is not None:
        # Woken before its deadline; a thread back in the same wait would have the same deadline.
        return ends_at > after.at and abs((after.blocked.wakes_at or 0.0) - ends_at) > SAME_DEADLINE_S
    if after.blocked.wakes_at is not None:
        return False
    limit = after.blocked.timeout_s
    if limit is None:
        return before.blocked.timeout_s is None
    return ran > _most_runs(after.at - before.at, limit)


def _are_elsewhere(before: Sample, after: Sample) -> bool:
    return before.stack is not None and after.stack is not None and _lines(before.stack) != _lines(after.stack)


def _parts_at_line(before: Stack | None, after: Stack) -> bool:
    """The first difference, from the outermost call inwards, is a line of one and the same call that calls something there."""
    frames = zip(reversed(before.frames[1:]), reversed(after.frames[1:]), strict=False) if before else ()
    for a, b in frames:
        if _call(a) != _call(b):
            return False
        if a.line != b.line:
            return True
    return False


def _call(frame: Frame) -> tuple[str, str, int | None]:
    return frame.function, frame.file, frame.arguments_digest


def _moved(before: Sample, after: Sample) -> bool:
    if before.stack is None or after.stack is None or before.stack is after.stack:
        return False
    same = _same_calls(before.stack, after.stack)
    entry = _entry(before.stack)
    if entry is not None:
        return same <= entry
    if _asks_again(before) and _asks_again(after):
        return _outline(before.stack) != _outline(after.stack)
    if _pictures(before.stack) == _pictures(after.stack):
        return False
    return not asks_own_library(after.stack) or _outline(before.stack) != _outline(after.stack)


def _asks_again(sample: Sample) -> bool:
    """The thread's wait or sleep is so short that it can only be polling; or it is running, about to poll again."""
    row = sample.blocked
    limit = row.timeout_s if row else None
    if limit is None and row and row.wakes_at is not None:
        limit = row.wakes_at - sample.at
    return sample.on_cpu or (limit is not None and limit <= ASKS_AGAIN_S)


def _outline(stack: Stack) -> tuple[tuple[str, int, int | None, int | None], ...]:
    """The user's frames in full, but only function and line of the library frames that they called: in those, a polling
    thread has new variables each time.
    """
    users = [at for at, frame in enumerate(stack.frames) if is_user(frame.file)]
    if not users:
        return _pictures(stack)
    inner = users[0]
    called = ((frame.function, frame.line, None, None) for frame in stack.frames[:inner])
    return (*called, *map(_picture, stack.frames[inner:]))


def _same_calls(before: Stack, after: Stack) -> int:
    """How many calls, counted from the outermost, are the same in both."""
    count = 0
    for a, b in zip(reversed(before.frames), reversed(after.frames), strict=False):
        if _call(a) != _call(b):
            break
        count += 1
    return count


def _entry(stack: Stack) -> int | None:
    """Depth, counted from the outermost, of the call that a library makes on behalf of a caller; `None` if there is none."""
    found = context(stack)
    if found is None:
        return None
    _, position = found
    inside = range(position - 1, -1, -1)
    entry = next((at for at in inside if is_user(stack.frames[at].file)), position - 1)
    return len(stack.frames) - 1 - max(entry, 0)


def _pictures(stack: Stack) -> tuple[tuple[str, int, int | None, int | None], ...]:
    """The state compared to tell whether a thread stands still: the frames outside the machinery, and the machinery function
    they called.

    Inside the machinery, a renewed wait has new deadlines and counters, which mean nothing.
    """
    zone = [] if _is_typed(stack) else list(inner_machinery(stack))
    called = [(zone[-1].function, 0, None, None)] if zone else []
    return (*called, *map(_picture, stack.frames[len(zone) :]))


def _is_typed(stack: Stack) -> bool:
    """The whole program is on its command line, as in `python -c`: all its code is user code, though in no user file."""
    return all(frame.file == COMMAND_LINE for frame in stack.frames)


def _picture(frame: Frame) -> tuple[str, int, int | None, int | None]:
    return frame.function, frame.line, frame.arguments_digest, frame.locals_digest


def _without_outliers(samples: list[Sample]) -> list[Sample]:
    """Drops torn stacks, which mix two moments: a stack that differs from both neighbours, which agree with each other. If it
    parts from them at another line of the same call, the thread was there: no mixture shows a line that was never reached.
    """
    kept = [
        sample
        for before, sample, after in zip(samples, samples[1:], samples[2:], strict=False)
        if sample.stack is None
        or sample.stack.exact
        or _parts_at_line(before.stack, sample.stack)
        or not (_moved(before, sample) and _moved(sample, after) and not _moved(before, after))
    ]
    return [*samples[:1], *kept, *samples[1:][-1:]] if len(samples) > 1 else samples
