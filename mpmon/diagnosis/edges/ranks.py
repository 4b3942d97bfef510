"""Waits of ranks for ranks: collectives and the rendezvous."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import dead_ranks, ended_siblings
from mpmon.diagnosis.edges.deaths import did
from mpmon.diagnosis.edges.numbered import forgotten_child
from mpmon.diagnosis.edges.threads import native_mutex
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries.torch_distributed import ASYNCHRONOUS, POINT_TO_POINT
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.ranks.addresses import is_this_machine
from mpmon.diagnosis.stacks.frames import bare
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import Sample, ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import GREETING_BYTES, LEAST_TICKS
from mpmon.numerals import numeral
from mpmon.spans import has


def collective(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Every rank of the group that is not in a collective of that group must enter one; if all are in one, the collectives
    may differ, and each rank waits for all others.
    """
    words = job.wait_state(key).words
    ranks = _mates(job, key)
    if job.is_of_earlier_start(key[0]):
        return WaitEdge((External("ranks of an earlier start of the job", of_job=True),), every=True, words=words)
    if key[0] not in job.ranks:
        # A backward pass without a process group is a native wait like any other.
        return native_mutex(job, key)
    size = len(job.group_of(key)) or job.role(key[0]).world_size
    if dead := dead_ranks(job, key[0], size, len(ranks)):
        return WaitEdge(tuple(dead), every=True, words=f"a rank that has ended, in {words}")
    if edge := _by_numbers(job, key[0], words):
        return edge
    if edge := _with_peer(job, key, words) or _with_only_contact(job, key, words):
        return edge
    mates = [pid for pid in ranks if pid != key[0]]
    there = {pid: thread for pid in mates if (thread := _thread_there(job, key, pid))}
    absent = [(pid, pid) for pid in mates if pid not in there]
    if absent:
        if exiting := [pid for pid, _ in absent if _only_exits(job, pid)]:
            return _with_exiting(job, exiting, words)
        names = job.names(absent)
        return WaitEdge(tuple(absent), every=True, words=f"{names} in {words}")
    if edge := with_rank_that_ended(job, key):
        return edge
    if outside := job.world.awaited(job.group_of(key), job.wait_state(key).operation):
        return WaitEdge(outside, every=True, words=f"{several([end.who for end in outside])} in {words}")
    if size is not None and not job.snapshot.elsewhere and len(ranks) < size:
        who = f"{size - len(ranks)} of {size} ranks, which do not run here"
        return WaitEdge((External(who, of_job=True),), every=True, words=words)
    if there:
        names = job.names(there)
        return WaitEdge(tuple(there.values()), every=True, words=f"{names} in {words}")
    return WaitEdge((External("ranks on other machines", of_job=True),), words=words)


def _by_numbers(job: JobState, pid: int, words: str) -> WaitEdge | None:
    """The ranks that by the Flight Recorders are behind, or have called a different collective; `None` if there are none."""
    if lag := job.numbers.lag(pid):
        names = [job.name(target[0]) if isinstance(target, tuple) else _outside(target) for target in lag.targets]
        return WaitEdge(
            lag.targets,
            every=True,
            basis=Basis.LEDGER.when(lag.exact),
            words=f"{several(names)} in {words}",
            evidence=lag.words,
        )
    if clash := job.numbers.clash(pid):
        others = clash.others(pid)
        names = job.names(others)
        return WaitEdge(
            tuple((other, other) for other in others), every=True, basis=Basis.LEDGER.when(clash.exact),
            words=f"{names} in {words}", evidence="; ".join(clash.words),
        )  # fmt: skip
    return None


_PEERS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
"""The argument that names the peer rank, by function of torch/distributed/distributed_c10d.py."""


def _with_peer(job: JobState, key: ThreadKey, words: str) -> WaitEdge | None:
    """In a point-to-point operation: the peer, whose rank is an argument of the call."""
    frame = job.wait_state(key).frame
    name = _PEERS.get(bare(frame.function)) if frame else None
    number = (frame.known or {}).get(name) if frame and name else None
    if frame and name == "src" and frame.known and {"tag"} == frame.known.keys() & {"tag", "src", "group_src"}:
        return _with_any(job, key, words)
    does = f"to {'receive' if name == 'dst' else 'send'} ({words})"
    peers = [pid for pid in job.ranks if str(job.role(pid).rank) == number and pid != key[0]]
    rank = numeral(number or "")
    if rank is not None and has(job.world.missing(), rank):
        return WaitEdge(job.world.outside(((rank, rank),)), every=True, words=f"rank {rank} {does}")
    if len(peers) != 1:
        return None
    return WaitEdge(((peers[0], peers[0]),), every=True, words=f"{job.name(peers[0])} {does}")


def _with_any(job: JobState, key: ThreadKey, words: str) -> WaitEdge | None:
    """`recv` without a source: the other ranks, if all of them are here."""
    others = [(pid, pid) for pid in job.ranks if pid != key[0] and job.is_alive(pid)]
    if not others or len(others) + 1 != (job.role(key[0]).world_size or job.world.size):
        return None
    return WaitEdge(tuple(others), words=f"any rank to send ({words})")


_ONE_PEER = POINT_TO_POINT | {ASYNCHRONOUS}
"""Operations that may be between two ranks only."""


def _with_only_contact(job: JobState, key: ThreadKey, words: str) -> WaitEdge | None:
    """In a point-to-point operation with an unnamed peer: the only rank this one has ever sent anything to over gloo's
    connections, since a sender or receiver notifies its peer at once that it is ready.
    """
    if job.wait_state(key).operation not in _ONE_PEER:
        return None
    sent = _sent_to_ranks(job, key[0])
    asked = [pid for pid, count in sent.items() if count > GREETING_BYTES]
    if len(asked) != 1 or set(sent) != set(job.ranks) - {key[0]}:
        return None
    name = job.name(asked[0])
    evidence = f"{job.name(key[0])} has never sent anything to any rank other than {name}" if len(sent) > 1 else ""
    return WaitEdge(((asked[0], asked[0]),), every=True, words=f"{name} in {words}", evidence=evidence)


def _sent_to_ranks(job: JobState, pid: int) -> dict[int, int]:
    """Bytes sent, by the pid of the rank at the other end of connections on which native threads of both ranks wait; empty
    unless known for all connections.
    """
    sent: dict[int, int] = {}
    for key in job.natives(pid):
        for item in job.waits_on(key):
            if item.kind != "socket" or item.listens or (item.peer and item.peer not in job.objects):
                # No thread waits at the other end: that is how a client of torch's store looks.
                continue
            far = [row.pid for row in job.holders.get(item.peer or "", ()) if row.pid in job.ranks and row.pid != pid]
            if len(far) != 1 or item.sent_bytes is None:
                return {}
            sent[far[0]] = max(sent.get(far[0], 0), item.sent_bytes)
    return sent


def _outside(target: Target) -> str:
    return target.who if isinstance(target, External) else "a rank"


def _mates(job: JobState, key: ThreadKey) -> list[int]:
    """The observed ranks of a collective's group; all ranks if the group is unknown."""
    numbers = job.group_of(key)
    known = bool(numbers) and all(job.role(pid).rank is not None for pid in job.ranks)
    return [pid for pid in job.ranks if job.role(pid).rank in numbers] if known else job.ranks


def _thread_there(job: JobState, key: ThreadKey, pid: int) -> ThreadKey | None:
    """The thread of a rank that, as far as is known, is in a collective of the same group; preferably in the same operation,
    then preferably the main thread.

    A rank in the final rpc shutdown still serves the others, and counts although its group is unknown.
    """
    threads = [(pid, pid), *(one for one in job.threads(pid) if one != (pid, pid))]
    there = [one for one in threads if job.wait_state(one).kind in (Wait.COLLECTIVE, Wait.REMOTE_END)]
    there = [one for one in there if job.is_of_group(key, one) is not False]
    # A thread that has run since it was found there has left it.
    there = [one for one in there if job.motion(one) is not Motion.PROGRESSING]
    operation = job.wait_state(key).operation
    return next((one for one in there if job.wait_state(one).operation == operation), next(iter(there), None))


def _only_exits(job: JobState, pid: int) -> bool:
    """The rank's script has ended, and only threads that poll or wait for requests keep its process alive.

    A training thread may sleep as well, but is not found in a short sleep by every sample.
    """
    main = (pid, pid)
    if job.wait_state(main).kind is not Wait.EXIT:
        return False
    others = [key for key in job.threads(pid) if key != main and key in job.stacks]
    return bool(others) and all(job.wait_state(key).idle or _ticks(job, key) for key in others)


def _ticks(job: JobState, key: ThreadKey) -> bool:
    """All samples found the thread in a sleep or a timed event wait, which it keeps renewing."""
    past = job.thread_history(key)
    if past is None or past.changes < LEAST_TICKS:
        return False
    return all(_naps(sample) for sample in past.samples if sample.stack)


def _naps(sample: Sample) -> bool:
    row, kind = sample.blocked, sample.wait_state.kind
    return kind is Wait.SLEEP or (kind is Wait.CONDITION and row is not None and row.has_limit)


def _with_exiting(job: JobState, pids: list[int], words: str) -> WaitEdge:
    names = job.names(pids)
    threads = several([
        job.thread_words(key) for pid in pids for key in job.threads(pid) if key != (pid, pid) and key in job.stacks
    ])  # fmt: skip
    why = f"the script of {names} has ended: MainThread is in threading._shutdown, and only {threads} keeps the process alive"
    nobody = NoReleaser(why, tuple(pids), Absent.RANK_EXITS)
    return WaitEdge((nobody,), every=True, words=f"{names} in {words}", evidence=why)


def _to_do(job: JobState, key: ThreadKey) -> str:
    wait = job.wait_state(key)
    return f"to set {wait.words}" if wait.kind is Wait.STORE_KEY else f"in {wait.words}"


def with_rank_that_ended(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """After the rendezvous, every rank has existed: a local rank that no longer runs has ended and was reaped."""
    here = {job.role(pid).rank for pid in job.ranks}
    size = job.role(key[0]).world_size or 0
    address = (job.processes[key[0]].environment or {}).get("MASTER_ADDR", "")
    gone = [number for number in job.group_of(key) or range(size) if number not in here]
    if not gone or not is_this_machine(address) or None in here:
        return None
    names = several([f"rank {number}" for number in gone])
    known = ended_siblings(job, key[0])
    if len(known) == len(gone) == 1:
        why, blame = f"{names} of {size} (pid {known[0].pid}) {did(known[0].how)}", (known[0].pid,)
    elif len(known) == len(gone):
        ends = several([f"pid {row.pid} {did(row.how)}" for row in known])
        why = f"{names} of {size} ended: {ends}"
        blame = tuple(row.pid for row in known)
    else:
        they = "it is" if len(gone) == 1 else "they are"
        why = f"{names} of {size} ended and left no trace: MASTER_ADDR is this machine, but {they} not running here"
        forgotten = forgotten_child(job, key[0]) if len(gone) == 1 else None
        blame = (forgotten,) if forgotten else ()
    return WaitEdge(
        (NoReleaser(why, blame, Absent.RANK_ENDED),),
        words=f"{names} {_to_do(job, key)}",
        evidence=why,
    )
