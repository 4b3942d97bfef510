"""Waits for data, or for room for it: pipes, queues, sockets, and what lies at their other ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpmon.diagnosis.edges.connections import askers, at_limit, connection_words, is_private
from mpmon.diagnosis.edges.dead import crashed, lost_relatives
from mpmon.diagnosis.edges.heirs import told
from mpmon.diagnosis.edges.items import asked, keeps_items, queues
from mpmon.diagnosis.edges.other_ends import other_ends, reads_from_command
from mpmon.diagnosis.edges.serving import awaited, takes_all
from mpmon.diagnosis.edges.taken import taken_by_ended
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.graph.nodes import FEW
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.ipc.queues import QUEUES_FILE, is_feeder
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import IDLE_S, RETRY_S
from mpmon.model import Handle, KernelObject


def message(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The processes that have the other end of the pipe or socket, or of each object in a poll."""
    if has_mail(job, key):
        return None
    objects = awaited(job, key)
    if any(item.kind == "inotify" for item in objects):
        return WaitEdge((External("a change to a watched file", moves=True),), words="file changes")
    writes = bool((row := job.blocked.get(key)) and row.writes)
    by_item = [(item, list(other_ends(job, key, item, writes=writes))) for item in objects]
    ends = _far_ends(job, key, by_item, writes=writes)
    # A loop that takes datagrams from anybody does not wait for its own wake-up socket.
    open_to_all = len(objects) > 1 and not writes
    outside = [
        who
        for item, found in by_item
        if not found and item.kind == "socket" and (who := _outside(job, key, item, open_to_all=open_to_all))
    ]
    if any(isinstance(end, tuple) and end[0] != key[0] for end in ends) and objects == list(job.waits_on(key)):
        # What another process of the job may send comes first, unless a native thread watches all connections of the process.
        outside = []
    if outside:
        # The other end of a socket by which a loop is woken is its own: that is no reason to wait for itself.
        ends.pop(key, None)
    words, evidence = job.wait_state(key).words, _object_words(job, objects, writes=writes)
    # A server that is woken by a pipe of its own waits for whoever connects.
    pipe = next((item for item in objects if item.kind == "pipe" and not any(row.listens for row in objects)), None)
    mute = pipe or (objects and all(_is_left_alone(job, key, item) for item in objects))
    strangers = _strangers(job, objects, writes=writes)
    # If only external processes have the other end, exited relatives had no part in it.
    dead = lost_relatives(job, key[0], certain=not ends) if mute and (ends or not strangers) else []
    if not writes and (keeper := keeps_items(job, key, objects)):
        return WaitEdge((keeper,), basis=Basis.FRAMES, words=words, evidence=evidence)
    if not writes and (nobody := taken_by_ended(job, key, objects)):
        return WaitEdge((nobody,), words=words, evidence=nobody.why)
    # Beside a living producer, or one who was asked, those that ended without an error owe nothing.
    others_owe = asked(job, key, _threads(ends)) or reads_from_command(job, key)
    if dead and not writes and others_owe:
        dead = [gone for gone in dead if gone.status]
    others = ends or strangers or outside or any(gone.status for gone in dead)
    if pipe and not others and _keeps_other_end(job, key, pipe):
        why = f"it holds the only other end of {pipe.id} itself, so neither data nor end of file can arrive"
        edge = NoReleaser(why, (key[0],), Absent.OWN_END)
        return WaitEdge((edge,), basis=Basis.KERNEL.when(not dead), words=words, evidence=evidence)
    if (nobody := at_limit(job, objects)) and job.now - job.stands_since(key) >= IDLE_S:
        (pid,) = nobody.blame
        shown = f"{nobody.why}: /proc/{pid}/fd, and 'Max open files' of /proc/{pid}/limits"
        return WaitEdge((nobody,), words="its server to accept the connection", evidence=shown)
    if edge := _kept_input(job, key, [target for target in ends if isinstance(target, tuple)], strangers):
        return edge
    if not (dead or strangers) and (edge := _nobody_serves(job, _threads(ends), words, evidence, writes=writes)):
        return edge
    if job.wait_state(key).kind is Wait.SOCKET and ends and not (writes or outside):
        words = f"an answer from {several(list(dict.fromkeys(job.role(pid).name for pid, _ in _threads(ends))))}"
    if ends or dead or strangers:
        basis = Basis.KERNEL.when(not (strangers or outside) and _is_named(job, key, objects, list(ends)))
        targets = (*ends, *dead, *strangers, *outside)
        return WaitEdge(targets, basis=basis, of_data=not writes, of_room=writes, words=words, evidence=evidence)
    if pipe and not outside and (own := _own_threads(job, key, pipe, writes=writes)):
        only = f"only pid {key[0]} itself {'reads' if writes else 'writes'} {pipe.id}"
        return WaitEdge(own, of_data=not writes, of_room=writes, words=words, evidence=only)
    if pipe and not outside:
        why = f"no other process {'reads' if writes else 'writes'} {pipe.id}"
        return WaitEdge(
            (NoReleaser(why, (key[0],)),), basis=Basis.KERNEL, of_room=writes, words=words, evidence=evidence
        )
    pause = pause_s(job.blocked.get(key))
    if pause is not None and pause > RETRY_S:
        # A timed wait for an external process may legitimately last for as long as its limit.
        return None
    if edge := _private_accept(job, key, objects, evidence):
        return edge
    senders = _may_send(job, key, objects)
    if len(senders) > FEW:
        return WaitEdge(senders, words=words, evidence=evidence)
    # Where no connection tells who is there, it may have been one that crashed.
    unknown = not any(item.kind in ("socket", "terminal") for item in objects)
    gone = crashed(job, key[0]) if unknown else []
    far = [who for who in outside if who.moves] or [External(_outside_words(objects))]
    return WaitEdge((*gone, *senders, *far), words=words, evidence=evidence)


def _far_ends(
    job: JobState, key: ThreadKey, by_item: list[tuple[KernelObject, list[Target]]], *, writes: bool
) -> dict[Target, None]:
    """Those that may act at the other ends; where another process has the end of a pipe, also the threads beside this one that
    act by themselves, or may do so if their process was seen to put something into that queue.
    """
    ends = dict.fromkeys(target for _, found in by_item for target in found)
    ends = {end: None for end in ends if not (isinstance(end, tuple) and _never_acts(job, end))} or ends
    pipes = [item for item, _ in by_item if item.kind == "pipe"] if ends else []
    own = [other for item in pipes for other in _own_threads(job, key, item, writes=writes)]
    puts = any(key[0] in queue.putters for queue in queues(job, pipes))
    return ends | {other: None for other in own if puts or _acts(job, other)}


def _acts(job: JobState, key: ThreadKey) -> bool:
    """It waits for nobody."""
    return job.motion(key) is Motion.PROGRESSING or job.wait_state(key).kind in (Wait.SLEEP, Wait.RUNNING)


_DATAGRAMS = ("unix ", "udp ")
"""How the paths of sockets begin whose messages may come from anybody, if they have no peer."""


def _may_send(job: JobState, key: ThreadKey, objects: list[KernelObject]) -> tuple[ThreadKey, ...]:
    """To a datagram socket whose peer is not known anybody may send who has a socket of that sort; to a local one also who has
    a socket of which nothing is known, as that is read only of sockets that somebody waits on. So may those who have a local
    socket if nobody has the peer: it is on its way to one of them, in a message (SCM_RIGHTS). But none of those that wait like
    this themselves.
    """
    sorts = _open_sorts(job, objects)
    having = job.of(_Senders).of(sorts) if sorts else ()
    return having if len(having) > FEW else tuple(other for other in having if other[0] != key[0])


def _open_sorts(job: JobState, objects: Iterable[KernelObject]) -> tuple[str, ...]:
    """How the paths of the sockets begin from which may come what a thread waits for; empty if its sockets tell."""
    sockets = [item for item in objects if item.kind == "socket"]
    named = [item.path or "" for item in sockets if not (item.peer or item.listens)]
    sorts = tuple(sort for sort in _DATAGRAMS if any(path.startswith(sort) for path in named))
    if any(_is_on_its_way(job, item.peer) for item in sockets if (item.path or "").startswith("unix")):
        return (*sorts, "unix")
    return sorts


class _Senders:
    """The threads of processes that have sockets, by the sorts of these: the same tuple for all that wait for one of them."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._of: dict[tuple[str, ...], tuple[ThreadKey, ...]] = {}

    def of(self, sorts: tuple[str, ...]) -> tuple[ThreadKey, ...]:
        """Those that have a socket of one of these sorts."""
        if sorts not in self._of:
            job, rows = self._job, self._job.snapshot.handles
            having = dict.fromkeys(row.pid for row in rows if _is_of_sort(job, row, sorts))
            threads = (key for pid in having if job.may_act(pid) for key in job.working_threads(pid))
            self._of[sorts] = tuple(key for key in threads if not _open_sorts(job, job.waits_on(key)))
        return self._of[sorts]


def _is_on_its_way(job: JobState, socket: str | None) -> bool:
    """The socket is there, and no process has it that mpmon can see."""
    return socket is not None and not (job.holders.get(socket) or job.outsiders.get(socket))


def _is_of_sort(job: JobState, row: Handle, sorts: tuple[str, ...]) -> bool:
    item = job.objects.get(row.object)
    path = item.path or "" if item else "unix "
    return row.object.startswith("socket:") and path.startswith(sorts)


def _private_accept(job: JobState, key: ThreadKey, objects: list[KernelObject], evidence: str) -> WaitEdge | None:
    """For a server that only the job knows: its clients, which may ask once more, those that may yet connect or start another
    client, and those that crashed.
    """
    listening = [item for item in objects if item.listens]
    if not listening or not all(is_private(job, item) for item in listening):
        return None
    gone = crashed(job, key[0])
    asking = [other for item in listening for other in askers(job, item) if other[0] != key[0]]
    connected = {pid for pid, _ in asking}
    may_connect = [(pid, pid) for pid in job.children.get(key[0], ()) if job.is_alive(pid) and pid not in connected]
    # Without its own threads at work nobody would start the one that crashed again.
    targets = (*gone, *([] if gone else asking), *may_connect, *job.others_at_work(key))
    return WaitEdge(targets, words="a connection", evidence=evidence) if targets else None


def _nobody_serves(job: JobState, ends: list[ThreadKey], words: str, evidence: str, *, writes: bool) -> WaitEdge | None:
    """For ends of which none ever acts."""
    if not ends or not all(_never_acts(job, end) for end in ends):
        return None
    pids = tuple(dict.fromkeys(pid for pid, _ in ends))
    names = several([f"{job.full_name(pid)}" for pid in pids])
    why = f"no thread of {names} is left that could: the main thread stays for ever in a loop that only sleeps and reports"
    return WaitEdge(
        (NoReleaser(why, pids, Absent.THREAD_ENDED),), of_room=writes, words=words, evidence=evidence or why
    )


def _never_acts(job: JobState, key: ThreadKey) -> bool:
    """The thread sleeps for ever, and so do all others of its process that do anything."""
    if not job.only_sleeps(key):
        return False
    return all(job.only_sleeps(other) for other in (*job.others_at_work(key), *job.natives_at_work(key[0])))


def _kept_input(job: JobState, key: ThreadKey, ends: list[ThreadKey], strangers: Sequence[External]) -> WaitEdge | None:
    """For a non-Python program that reads its standard input until end of file: its parent has closed the writing end, but
    siblings inherited it at their fork, keep it open, and only wake from time to time.
    """
    row, parent = job.blocked.get(key), job.processes[key[0]].ppid
    if row is None or row.args[:1] != (0,) or row.writes or key[0] not in job.foreign or strangers or not ends:
        return None
    if any(job.processes[pid].ppid != parent or not job.processes[pid].forked for pid, _ in ends):
        return None
    if not all(job.motion(end) is Motion.POLLING and pause_s(job.blocked.get(end)) is not None for end in ends):
        return None
    heirs = tuple(pid for pid, _ in ends)
    names = several([f"{job.full_name(pid)}" for pid in heirs])
    why = f"only {names} {'has' if len(heirs) == 1 else 'have'} the other end of its standard input, since the fork"
    words = job.wait_state(key).words
    return WaitEdge((NoReleaser(why, heirs, Absent.INHERITED),), words=words, evidence=why)


def _keeps_other_end(job: JobState, key: ThreadKey, pipe: KernelObject) -> bool:
    """The thread reads a pipe whose writing end its own process has, and no other thread of it could write. Queues are
    excluded: their users all have both ends.
    """
    row, stack = job.blocked.get(key), job.stacks.get(key)
    of_queue = stack is None or has(stack, QUEUES_FILE, ("get", "_recv_bytes"))
    own = any(handle.pid == key[0] and handle.writes for handle in job.holders.get(pipe.id, ()))
    return own and not of_queue and not job.others_at_work(key) and not (row and row.writes)


def _own_threads(job: JobState, key: ThreadKey, pipe: KernelObject, *, writes: bool) -> tuple[ThreadKey, ...]:
    """The other threads of a process that itself has the other end of the pipe: any that does more than tick, or send what is
    in the buffer of a queue, may use or close it.
    """
    if not any(row.pid == key[0] and (row.reads if writes else row.writes) for row in job.holders.get(pipe.id, ())):
        return ()
    others = (other for other in job.others_at_work(key) if not is_feeder(job.stacks.get(other)))
    return tuple(other for other in others if not only_ticks(job, other))


def _strangers(job: JobState, objects: Iterable[KernelObject], *, writes: bool) -> list[External]:
    """The processes outside the job that have the other end."""
    rows = [row for item in objects for row in job.outsiders.get(item.id, ()) if (row.reads if writes else row.writes)]
    return [External(f"pid {pid}, which is not part of this job") for pid in dict.fromkeys(row.pid for row in rows)]


def _is_named(job: JobState, key: ThreadKey, objects: list[KernelObject], ends: list[Target]) -> bool:
    """The kernel names the processes at the other end, and each has only one thread that could act."""
    named = _threads(ends)
    alone = all(_acts_alone(job, key, end) for end in named) and not _others_have(job, key, objects, named)
    known = all(item.kind == "pipe" or (item.kind == "socket" and (item.peer or item.listener)) for item in objects)
    return bool(ends) and alone and known


def _others_have(job: JobState, key: ThreadKey, objects: list[KernelObject], ends: list[ThreadKey]) -> bool:
    """Further living processes have the other end, by a fork for instance, and might use it."""
    pids = {handle.pid for item in objects for handle in job.holders.get(item.peer or "", ())}
    left_out = any(job.is_alive(pid) for pid in pids - {key[0]} - {pid for pid, _ in ends})
    row = job.blocked.get(key)
    writes = row is not None and row.writes
    return left_out or any(told(job, item, writes=writes) for item in objects if item.kind == "pipe")


def _acts_alone(job: JobState, key: ThreadKey, end: ThreadKey) -> bool:
    """No other thread of the target's process could act instead; a non-Python process must be single-threaded."""
    if end[0] == key[0]:
        return not [other for other in job.others_at_work(end) if other != key]
    if end[0] in job.foreign:
        return job.processes[end[0]].threads == 1
    return not job.others_at_work(end)


def _threads(ends: Iterable[Target]) -> list[ThreadKey]:
    return [target for target in ends if isinstance(target, tuple)]


def _is_left_alone(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The socket's other end is open only in the waiter's own process: the process it was meant for is gone."""
    pids = {handle.pid for handle in job.holders.get(item.peer or "", ())}
    return item.kind == "socket" and pids == {key[0]}


def leads_out(item: KernelObject) -> bool:
    """It is a connection over the network."""
    return item.kind == "socket" and (item.path or "").startswith("tcp ") and not (item.listens or item.listener)


def _outside(job: JobState, key: ThreadKey, item: KernelObject, *, open_to_all: bool) -> External | None:
    """Who is at the other end of a socket that no process of the job has. What a program that is not Python is told by another
    one of this machine, and when, is theirs to know.
    """
    path = item.path or ""
    if path.startswith("unix") and _is_on_its_way(job, item.peer):
        return External("a program outside the job", moves=key[0] in job.foreign)
    return External(path) if leads_out(item) or (open_to_all and takes_all(item)) else None


def has_mail(job: JobState, key: ThreadKey) -> bool:
    """Bytes to read, or a connection to accept, are already pending, so the thread is about to continue."""
    row = job.blocked.get(key)
    if row is None or row.writes:
        return False
    return any(item.fill and item.id not in row.once for item in job.waits_on(key) if item.kind in _WITH_MAIL)


def left_unread(job: JobState, key: ThreadKey) -> KernelObject | None:
    """Data of another process that a poll was woken for once, and that was not read to its end: nothing wakes it for the rest."""
    row = job.blocked.get(key)
    if row is None or not row.once or key not in job.stacks or job.motion(key) is not Motion.NOT_SCHEDULED:
        return None
    left = (item for item in job.waits_on(key) if item.id in row.once and item.fill and not item.listens)
    # A thread waits at the other end of the connection.
    return next((item for item in left if job.waiters.get(item.peer or "")), None)


_WITH_MAIL = frozenset({"pipe", "socket", "eventfd"})


def _object_words(job: JobState, items: list[KernelObject], *, writes: bool) -> str:
    for item in items:
        if item.kind == "pipe" and item.fill is not None:
            words = f"{item.id} holds {item.fill} of {item.capacity} bytes"
            return "; ".join(filter(None, (words, told(job, item, writes=writes))))
        if words := connection_words(job, item, writes=writes):
            return words
    return ""


def _outside_words(items: list[KernelObject]) -> str:
    for item in items:
        if item.kind == "socket" and item.path:
            near, _, far = item.path.partition(" to ")
            return f"a datagram to {near}" if near.startswith("udp ") and far.endswith(":0") else item.path
        if item.kind == "terminal":
            return "a person at the terminal"
    return "something outside the job"
