"""Who is responsible for a stream, a pipe or a queue that is full, or that nobody writes to."""

from __future__ import annotations

from collections.abc import Sequence

from mpmon.diagnosis.edges.heirs import keepers
from mpmon.diagnosis.graph import Ending, Exited, Target
from mpmon.diagnosis.responsibility.members import helpers_of, pids_asked, waits_for_room
from mpmon.diagnosis.responsibility.servers import hub
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, LOCKS, Wait, in_own_code
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def unanswered_prompt(stuck: StuckSet) -> ThreadKey | None:
    """A thread that reads its standard input, a pipe whose only writers are stuck themselves. A thread that answers
    requests is excluded: its writer reads its standard output; so is a program at the end of a pipeline, which gets its input
    from programs that are no ancestors of it, and one that cannot write.
    """
    if not stuck.is_mutual:
        return None
    full = {key[0] for key in stuck.closed.members if waits_for_room(stuck, key)}
    reads = [key for key in stuck.closed.members if key[0] not in full and _reads_input(stuck, key)]
    asks = next(
        (key for key in reads if key in stuck.job.stacks or _are_ancestors(stuck, stuck.targets(key), key[0])), None
    )
    targets = stuck.targets(asks) if asks else ()
    # Who has ended will not answer either.
    left = [target for target in targets if not isinstance(target, Exited)]
    all_stuck = left and all(target in stuck.closed.members for target in left)
    return asks if asks and all_stuck and not any(_reads_output(stuck, target, asks) for target in left) else None


def kept_ends(stuck: StuckSet) -> dict[ThreadKey, list[ThreadKey]]:
    """Members that read from a pipe or connection until its end, since others wait for them to end, each with those that keep its
    other end open and do not use it.
    """
    if not stuck.is_mutual:
        return {}
    edges = (edge for key in stuck.closed.members if (edge := stuck.graph.node(key).edge) and edge.of_end)
    awaited = {target for edge in edges for target in edge.targets}
    readers = [key for key in stuck.members_in(*COMES_BY_READING, Wait.SOCKET) if key in awaited]
    kept = {key: [(pid, pid) for pid in keepers(stuck.job, key)] for key in readers}
    return {key: found for key, found in kept.items() if found}


def keepers_of_ends(stuck: StuckSet) -> list[ThreadKey]:
    """Those that keep open what members read until its end."""
    return list(dict.fromkeys(keeper for found in kept_ends(stuck).values() for keeper in found))


def _are_ancestors(stuck: StuckSet, targets: Sequence[Target], pid: int) -> bool:
    above = {pid, *stuck.job.ancestors(pid)}
    return all(isinstance(target, tuple) and target[0] in above for target in targets)


def _reads_output(stuck: StuckSet, key: Target, of: ThreadKey) -> bool:
    if not isinstance(key, tuple):
        return False
    # Who has a terminal's other end reads what is written to the terminal.
    reads = (name for item in stuck.job.waits_on(key) for name in (item.id, item.peer) if name)
    return any(row.pid == of[0] and row.fd == 1 for name in reads for row in stuck.job.holders.get(name, ()))


def _reads_input(stuck: StuckSet, key: ThreadKey) -> bool:
    row, stack, parent = stuck.job.blocked.get(key), stuck.job.stacks.get(key), stuck.job.processes[key[0]].ppid
    # Of a program that Python code started, the line to look at is there.
    own = in_own_code(stack) if stack else key[0] in stuck.job.foreign and not stuck.job.has_frames(parent)
    return own and row is not None and row.syscall == "read" and row.args[:1] == (0,)


def makers_of_room(stuck: StuckSet) -> list[ThreadKey]:
    """The only threads that could make the room that members wait for, if those threads wait for something else."""
    members = [key for key in stuck.closed.core if waits_for_room(stuck, key)]
    # The writer's own process has the reading end too, but would not read what it wrote itself.
    pairs = [(key, target) for key in members for target in helpers_of(stuck, key) if target[0] != key[0]]
    pairs = [(key, target) for key, target in pairs if not _waits_to_write(stuck, target)]
    # Of several candidates, prefer one that waits for the writer, of these one that waits for nobody else: the others may have
    # inherited the other end.
    waiting = [target for key, target in pairs if any(helper[0] == key[0] for helper in helpers_of(stuck, target))]
    waiting = [target for target in waiting if len(pids_asked(stuck, target)) == 1] or waiting
    if not pairs and len(members) == len(stuck.closed.core):
        return hub(stuck) or members
    return list(dict.fromkeys(waiting or [target for _, target in pairs]))


def _waits_to_write(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for room, or for a lock such as the writers' lock."""
    return waits_for_room(stuck, key) or stuck.wait_state(key).kind in LOCKS


def starters(stuck: StuckSet) -> list[ThreadKey]:
    """In a cycle, the parents of members that wait in a standard stream: a parent decides what is read and closed. Of a command
    that a shell runs, the one that has the other end of the shell's streams.
    """
    started = [key for key in stuck.at_end if in_given_stream(stuck.job, key)]
    parents = {_starter(stuck, key) for key in started}
    found = [key for key in stuck.at_end if key[0] in parents]
    return found if stuck.ending is Ending.CYCLE and parents == {pid for pid, _ in found} else []


def _starter(stuck: StuckSet, key: ThreadKey) -> int:
    """The parent; above a shell, which only passes on its own streams, the one that started that, if it has the other end."""
    job, able = stuck.job, {target[0] for target in stuck.targets(key) if isinstance(target, tuple)}
    parent = job.processes[key[0]].ppid
    above = next((pid for pid in job.ancestors(key[0]) if pid not in job.foreign), parent)
    return above if above in able else parent


def in_given_stream(job: JobState, key: ThreadKey) -> bool:
    """The thread reads its standard input, or writes to its standard output or error."""
    row = job.blocked.get(key)
    return row is not None and row.syscall in ("read", "write") and row.args[:1] in ((0,), (1,), (2,))
