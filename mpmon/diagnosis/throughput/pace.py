"""How a working job progresses: how fast each rank is, what it spends its time on, and which rank the others wait for.

Rates count what ranks take from their loaders, else the collectives they begin. Shares are of the samples of main
threads (`spots`) in the last minute, without the pauses in which all ranks stand still, if these are the exception.

A rank is called the bottleneck only if all others were clearly more often found waiting for ranks than it was: each of
them in a fifth of the samples, and by a margin that is unlikely to be chance. In a job whose ranks take turns being
late, all wait alike, and no bottleneck is named; nor is one if ranks wait in their GPUs' queues, which samples of main
threads do not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import sqrt

import msgspec

from mpmon.diagnosis.findings import Bottleneck, Diagnosis, Pace, Pause, Place, TrendPoint
from mpmon.diagnosis.humanize import age, runs, speeds
from mpmon.diagnosis.ipc.names import RESULTS
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import innermost_user, is_user, place
from mpmon.diagnosis.stacks.waits import SLEEP_CALLS
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.state.spots import Doing, Places, doing_of
from mpmon.diagnosis.stuck.stuck_set import doing
from mpmon.diagnosis.thresholds import (
    BOTTLENECK_ERRORS,
    BOTTLENECK_MORE_SHARE,
    BOTTLENECK_WAIT_SHARE,
    DATA_SHARE,
    KNOWN_SHARE,
    PACE_S,
    PAUSES_SHARE,
    SHARE_LOOKS,
)
from mpmon.diagnosis.throughput.rates import collective_rates, rates
from mpmon.model import CallPlace


class Progress(msgspec.Struct, frozen=True, gc=False):
    """All of it."""

    paces: tuple[Pace, ...] = ()
    bottleneck: Bottleneck | None = None
    pause: Pause | None = None
    words: str = ""
    """The sentence; empty unless all ranks are known to make progress."""


def progress(job: JobState) -> Progress:
    """The progress of the ranks of a healthy job."""
    ranks = sorted(job.ranks, key=lambda pid: (_number(job, pid), pid))
    if not ranks:
        return Progress()
    pauses = _pauses(job)
    found = _found(job, ranks, pauses)
    samples = {pid: _done(job, pid, places) for pid, places in found.items()}
    batches, collectives = _batches(job), _collectives(job)
    paces = tuple(_pace(job, pid, samples[pid], batches.get(pid), collectives.get(pid)) for pid in ranks)
    bottleneck = _bottleneck(job, paces, samples, found)
    return Progress(paces, bottleneck, pauses[-1] if pauses else None, _words(job, paces, bottleneck))


def _number(job: JobState, pid: int) -> int:
    rank = job.role(pid).rank
    return -1 if rank is None else rank


def _pauses(job: JobState) -> list[Pause]:
    """The known pauses; none if they belong to every step."""
    kept = list(job.history.spots.pauses)
    last = [row for row in kept if row.ended > job.now - PACE_S]
    took_s = sum(row.ended - max(row.began, job.now - PACE_S) for row in last)
    return kept if len(last) <= 2 and took_s <= PAUSES_SHARE * PACE_S else []


# Samples


def _found(job: JobState, ranks: list[int], pauses: list[Pause]) -> dict[int, Counter[CallPlace]]:
    """Where each rank was found, and how often."""
    found: dict[int, Counter[CallPlace]] = {pid: Counter() for pid in ranks}
    for moment in _window(job, pauses):
        for spot in moment.spots:
            if spot.pid in found:
                found[spot.pid][spot.place] += 1
    return found


def _done(job: JobState, pid: int, found: Counter[CallPlace]) -> Counter[Doing | None]:
    """How often a rank was found in each activity; `None` counts spots that no sample explains."""
    places = _told(job, pid)
    done: Counter[Doing | None] = Counter()
    for at, count in found.items():
        done[doing_of(places, at)] += count
    return done


def _told(job: JobState, pid: int) -> Places:
    return job.history.spots.places.get(job.processes[pid].key, {})


def _window(job: JobState, pauses: list[Pause]) -> Iterator[TrendPoint]:
    for moment in reversed(job.history.trend):
        if moment.taken_at <= job.now - PACE_S:
            return
        if not any(row.began < moment.taken_at <= row.ended for row in pauses):
            yield moment


# Rates


def _batches(job: JobState) -> Mapping[int, float]:
    """Batches per second, by trainer."""
    results = {view.id for view in job.ipc.queues if (view.name or "").startswith(RESULTS)}
    return rates(job.history.trend, results).by_taker if results else {}


def _collectives(job: JobState) -> Mapping[int, float]:
    if not job.snapshot.flight_records:
        return {}
    ranks = {job.role(pid).rank: pid for pid in job.ranks}
    told = ((pid or ranks.get(rank), speed) for (rank, pid), speed in collective_rates(job.history.trend).items())
    return {pid: speed for pid, speed in told if pid is not None}


def _pace(
    job: JobState, pid: int, done: Counter[Doing | None], batches: float | None, collectives: float | None
) -> Pace:
    known = done.total() - done[None]
    shown = known >= SHARE_LOOKS and known >= KNOWN_SHARE * done.total()

    def share(doing: Doing) -> float | None:
        return round(done[doing] / known, 3) if shown else None

    role = job.role(pid)
    return Pace(
        pid=pid, role=role.name, rank=role.rank, batches_per_s=_rounded(batches), collectives_per_s=_rounded(collectives),
        samples=known, works=share(Doing.ITSELF), waits_for_ranks=share(Doing.RANKS), waits_for_data=share(Doing.DATA),
    )  # fmt: skip


def _rounded(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 3)


# The bottleneck


def _bottleneck(
    job: JobState,
    paces: tuple[Pace, ...],
    samples: Mapping[int, Counter[Doing | None]],
    found: Mapping[int, Counter[CallPlace]],
) -> Bottleneck | None:
    """Samples that no frames explain count against the bottleneck: each of them may be of any kind."""
    if any(samples[row.pid].total() - samples[row.pid][None] < SHARE_LOOKS for row in paces):
        return None
    if all(_share(samples[row.pid], Doing.DATA) >= DATA_SHARE for row in paces):
        who = "all ranks wait" if len(paces) > 1 else "it waits"
        summary = f"{who} for batches most of the time{_loading(job)}"
        return Bottleneck(pids=tuple(row.pid for row in paces), what="data", summary=summary)
    least = min(paces, key=lambda row: _share(samples[row.pid], Doing.RANKS, None))
    others = [row for row in paces if row is not least]
    if not others or not all(_waits_more(samples[row.pid], samples[least.pid]) for row in others):
        return None
    who = "the others wait" if len(others) > 1 else f"{others[0].role} waits"
    if samples[least.pid][Doing.DATA] > samples[least.pid][Doing.ITSELF] + samples[least.pid][None]:
        return Bottleneck(
            pids=(least.pid,),
            what="data",
            summary=f"{who} for {least.role}, which waits for its batches most of the time",
        )
    line, words = _work(job, least.pid, found[least.pid])
    return Bottleneck(pids=(least.pid,), what="work", place=line, summary=f"{who} for {least.role}{words}")


def _loading(job: JobState) -> str:
    """The line of the user's code at which most loader workers were last found; empty where that varies."""
    workers = [pid for pid in job.processes if job.role(pid).kind == LOADER_WORKER]
    stacks = [stack for pid in workers if (stack := job.stacks.get((pid, pid)))]
    frames = (innermost_user(stack) for stack in stacks)
    lines = Counter(place(frame) for frame in frames if frame and is_user(frame.file))
    line, count = next(iter(lines.most_common(1)), (None, 0))
    if line is None or 2 * count <= len(workers):
        return ""
    return f" (loader workers in {line.function}() at {line.file.rpartition('/')[2]}:{line.line})"


def _share(samples: Counter[Doing | None], *doings: Doing | None) -> float:
    """The share of all samples, unexplained ones included, that found one of these activities."""
    return sum(samples[doing] for doing in doings) / samples.total()


def _waits_more(one: Counter[Doing | None], other: Counter[Doing | None]) -> bool:
    """`one` was often found waiting for ranks, and clearly more often than `other` can have waited for them."""
    share, most = _share(one, Doing.RANKS), _share(other, Doing.RANKS, None)
    error = sqrt(share * (1 - share) / one.total() + most * (1 - most) / other.total())
    return share >= BOTTLENECK_WAIT_SHARE and share - most >= max(BOTTLENECK_MORE_SHARE, BOTTLENECK_ERRORS * error)


def _work(job: JobState, pid: int, found: Counter[CallPlace]) -> tuple[Place | None, str]:
    """The line at which a rank spends most of its time, also in words; nothing if that varies."""
    places = _told(job, pid)
    own = Counter({at: count for at, count in found.items() if doing_of(places, at) is Doing.ITSELF})
    at, count = next(iter(own.most_common(1)), (None, 0))
    if at is None or 2 * count <= found.total():
        return None, ""
    told = places.get(at)
    line = told.line if told else _computes_at(job, pid)
    does = "asleep in" if at[0] in SLEEP_CALLS else "in"
    return line, f" ({does} {line.function}() at {line.file.rpartition('/')[2]}:{line.line})" if line else ""


def _computes_at(job: JobState, pid: int) -> Place | None:
    """The line at which most samples found it that ran while its frames were read."""
    past = job.thread_history((pid, pid))
    stacks = [sample.stack for sample in (past.samples if past else ()) if sample.stack and sample.stack.active]
    lines = Counter(place(frame) for stack in stacks if (frame := innermost_user(stack)))
    line, count = lines.most_common(1)[0] if lines else (None, 0)
    return line if 2 * count > len(stacks) else None


# In words


def in_words(diagnosis: Diagnosis, now: float) -> list[str]:
    """What ranks spend their time on, the bottleneck first, then the last pause.

    `rank 2 works 93 %, waits for ranks 7 % (60 samples)`, `ranks 0-1 and 3 work 53-65 %, wait for ranks 35-47 %`.
    """
    known = [row for row in diagnosis.paces if row.works is not None]
    first = diagnosis.bottleneck.pids if diagnosis.bottleneck else ()
    groups = ([row for row in known if row.pid in first], [row for row in known if row.pid not in first])
    lines = [_shares(alike) for group in groups for alike in _alike(group)]
    if lines:
        lines[0] += f" ({_range([row.samples for row in known])} samples)"
    return [*lines, *([_pause_words(diagnosis, diagnosis.pause, now)] if diagnosis.pause else [])]


def _alike(rows: list[Pace]) -> list[list[Pace]]:
    """Ranks that work about the same share of their time together, those that work most first."""
    groups: list[list[Pace]] = []
    for row in sorted(rows, key=lambda row: -(row.works or 0.0)):
        if groups and (groups[-1][-1].works or 0.0) - (row.works or 0.0) < BOTTLENECK_MORE_SHARE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [sorted(group, key=lambda row: row.pid) for group in groups]


def _shares(rows: list[Pace]) -> str:
    """The shares of ranks that are described together."""
    several = len(rows) > 1
    numbers = [row.rank for row in rows if row.rank is not None]
    who = f"ranks {runs(numbers)}" if several and len(numbers) == len(rows) else " and ".join(row.role for row in rows)
    waits = "wait" if several else "waits"
    parts = [f"work{'' if several else 's'} {_percents(row.works for row in rows)}"]
    parts.append(f"{waits} for ranks {_percents(row.waits_for_ranks for row in rows)}")
    if any(row.waits_for_data for row in rows):
        parts.append(f"for batches {_percents(row.waits_for_data for row in rows)}")
    return f"{who} {', '.join(parts)}"


def _percents(shares: Iterable[float | None]) -> str:
    return f"{_range([round(100 * (share or 0.0)) for share in shares])} %"


def _range(numbers: list[int]) -> str:
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)}-{max(numbers)}"


def _pause_words(diagnosis: Diagnosis, pause: Pause, now: float) -> str:
    """`all ranks but rank 0 stood for 12 s, 40 s ago`."""
    roles = {row.pid: row.role for row in diagnosis.paces}
    but = "".join(f" but {roles[pid]}" for pid in pause.ran if pid in roles)
    return f"all ranks{but} stood still for {age(pause.ended - pause.began)}, {age(now - pause.ended)} ago"


_RUNS = frozenset({Motion.PROGRESSING, Motion.UNKNOWN})
"""A thread that is known not to be frozen, and perhaps makes progress."""


def _words(job: JobState, paces: tuple[Pace, ...], bottleneck: Bottleneck | None) -> str:
    """`4 ranks make progress: 6.6 batches/s each; the others wait for rank 2 (asleep in train() at train.py:22)`."""
    speed = _speed(paces)
    moves = [job.motion((row.pid, row.pid)) for row in paces]
    first = next(iter(paces))
    if speed or all(motion is Motion.PROGRESSING for motion in moves):
        who = f"{len(paces)} ranks make progress" if len(paces) > 1 else f"{first.role} makes progress"
    elif all(
        job.thread_history((row.pid, row.pid)) and motion in _RUNS for row, motion in zip(paces, moves, strict=True)
    ):
        who = f"{len(paces)} ranks run" if len(paces) > 1 else f"{first.role} runs"
    else:
        return ""
    more = "" if speed else _first_words(job, paces)
    more = bottleneck.summary if bottleneck else more
    return "".join((who, f": {speed}" if speed else "", f"; {more}" if more else ""))


def _first_words(job: JobState, paces: tuple[Pace, ...]) -> str:
    """Before there is a speed to report; one of several ranks stands for no other."""
    first, few = next(iter(paces)), min(row.samples for row in paces)
    if len(paces) == 1:
        return f"{first.role} is {doing(job, (first.pid, first.pid))}"
    return f"{few} of {SHARE_LOOKS} samples taken to compare them" if few < SHARE_LOOKS else ""


def _speed(paces: tuple[Pace, ...]) -> str:
    """The speed of all ranks; empty if one is unknown, or if one stands still."""
    each = " each" if len(paces) > 1 else ""
    for unit, found in (
        ("batches", [row.batches_per_s for row in paces]),
        ("collectives", [row.collectives_per_s for row in paces]),
    ):
        known = [speed for speed in found if speed]
        if len(known) == len(paces):
            return f"{speeds(known)} {unit}/s{each}"
    return ""
