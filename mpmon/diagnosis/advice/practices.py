"""Best practices that apply to this job, in addition to what the rule of the cause says.

Each entry of the table `ADVICE` is a condition over the job and one of its findings, and a sentence that names the
call or the flag. Sources: PyTorch's "Multiprocessing best practices" and `torch.utils.data` pages, Python's
"Programming guidelines" of multiprocessing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mpmon.diagnosis.findings import Finding, Suspect, Waiter
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.progress.loop_progress import matches_short_text
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import bare, calls, has
from mpmon.diagnosis.stacks.waits import Wait, opens_pipe
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Stack

Advice = Callable[[JobState, Finding], str | None]

_FORKS = frozenset({"fork-lock", "fork-thread", "fork-openmp"})
_FROM_OUTSIDE = frozenset({"stopped", "debugger"})
"""Causes that the program's author did not introduce: writing the program differently would not help."""

_NO_ITEM = frozenset({"queue-empty", "item-lost"})

_CUDA_DEVICE = "device:/dev/nvidia"


def further_advice(job: JobState, finding: Finding) -> tuple[str, ...]:
    """Further advice, without what the finding already says; empty if the cause lies outside the program."""
    if finding.cause in _FROM_OUTSIDE:
        return ()
    found = (advice(job, finding) for advice in ADVICE)
    return tuple(line for line in dict.fromkeys(found) if line and line not in finding.advice)


def fork_after_threads(job: JobState, finding: Finding) -> str | None:
    """The parent of a forked child that hangs in a lock or a thread wait runs threads."""
    child = next((suspect.pid for suspect in finding.suspects if job.is_forked(suspect.pid)), None)
    if finding.cause not in _FORKS or child is None:
        return None
    parent = job.processes[child].ppid
    others = [key for key in job.threads(parent) if key[1] != parent and not job.wait_state(key).idle]
    if not others:
        return None
    names = several(list(dict.fromkeys(map(job.thread_name, others))))
    return (
        f"{job.role(parent).name} runs threads ({names}), which fork does not copy, only the locks they hold: start the "
        f"child before them, or {_start(job, child)}."
    )


def fork_after_cuda(job: JobState, finding: Finding) -> str | None:
    """A forked child is in a CUDA call, or in something that fork broke, and its parent has a GPU open."""
    for suspect in finding.suspects:
        stack = job.stacks.get((suspect.pid, suspect.tid or suspect.pid))
        in_cuda = stack is not None and any("/torch/cuda/" in frame.file for frame in stack.frames)
        if not job.is_forked(suspect.pid) or not (in_cuda or finding.cause in _FORKS):
            continue
        parent = job.processes[suspect.pid].ppid
        if any(name.startswith(_CUDA_DEVICE) for name in job.held_by.get(parent, ())):
            how = _start(job, suspect.pid)
            return f"{job.role(parent).name} has CUDA initialised, which a forked child cannot use: {how}."
    return None


def backtracking(job: JobState, finding: Finding) -> str | None:
    """A suspect matches a regular expression against a short text for long."""
    keys = ((suspect.pid, suspect.tid or suspect.pid) for suspect in finding.suspects)
    found = any(job.motion(key) is Motion.BUSY_LOOP and matches_short_text(job.stacks.get(key)) for key in keys)
    return (
        "The pattern has repeats inside of repeats, which can divide a text that does not match in ever more ways: let each "
        "part match in one way only, or make a repeat possessive (from Python 3.11 on, x++ instead of x+)."
        if found
        else None
    )


def more_workers_than_cpus(job: JobState, finding: Finding) -> str | None:
    """The job has more DataLoader workers than CPUs, and the finding is about one of them."""
    about = next((row.pid for row in _all(finding) if job.role(row.pid).kind == LOADER_WORKER), None)
    if about is None:
        return None
    host = job.processes[about].host if about in job.processes else ""
    workers = [
        pid for pid, role in job.roles.items()
        if role.kind == LOADER_WORKER and job.is_alive(pid) and job.processes[pid].host == host
    ]  # fmt: skip
    if len(workers) <= (cpus := available_cpus(job, host)):
        return None
    loaders = len({job.role(pid).parent for pid in workers})
    enough = f"num_workers={max(1, cpus // loaders)} is enough{' for each loader' if loaders > 1 else ''}"
    return (
        f"Not the cause, but slow: {len(workers)} DataLoader workers share {cpus} CPU{'s' if cpus > 1 else ''}; "
        f"{enough} (len(os.sched_getaffinity(0)) tells the number of CPUs)."
    )


def available_cpus(job: JobState, host: str = "") -> int:
    """The CPUs the job may use: the least of the machine's, the root's (affinity, cpusets) and its control group's
    (cpu.max).
    """
    tops = (pid for pid in job.children.get(job.snapshot.root_pid, ()) if job.processes[pid].host == host)
    root = job.processes.get(next(tops, 0)) if host else job.snapshot.root
    has = next((row.cpu_count for row in job.snapshot.nodes if row.host == host), job.snapshot.cpu_count)
    group = next((row for row in job.snapshot.cgroups if root and row.path == root.cgroup), None)
    counts = [has, root.cpus if root else None, group.cpus if group else None]
    return max(1, round(min(count for count in counts if count)))


def main_guard(job: JobState, finding: Finding) -> str | None:
    """A child of spawn or forkserver died with an error while its parent was still handing it its work."""
    files = ("multiprocessing/popen_spawn_posix.py", "multiprocessing/popen_forkserver.py")
    if not any(suspect.dead for suspect in finding.suspects):
        return None
    if not any(has(stack, file, ("_launch",)) for stack in _stacks(job, finding) for file in files):
        return None
    return (
        "The child died while it started. If its traceback names the bootstrapping phase, put the code that starts "
        'processes or loaders under `if __name__ == "__main__":`: spawn and forkserver import the script again.'
    )


def items_of_the_feeder(job: JobState, finding: Finding) -> str | None:
    """A thread waits on a queue with feeder threads, and the queue's producer ended by itself, perhaps before these were done."""
    # One that was killed could run no code any more.
    ended = [suspect.pid for suspect in finding.suspects if suspect.dead and not _was_killed(job, suspect.pid)]
    if finding.cause != "queue-empty" or not ended:
        return None
    frames = [frame for stack in _stacks(job, finding) for frame in stack.frames]
    gets = [frame.function for frame in frames if calls(frame, "multiprocessing/queues.py", ("get",))]
    if not gets or any("SimpleQueue" in function for function in gets):
        return None
    return (
        "Items that were put but not yet sent are lost with the producer's feeder thread: end it with queue.close() and "
        "queue.join_thread(), or use SimpleQueue, which has no feeder thread."
    )


def _was_killed(job: JobState, pid: int) -> bool:
    """A signal is known to have ended it."""
    process, row = job.processes.get(pid), job.remembered.get(pid)
    if process:
        return bool((process.exit_code or 0) & 0x7F)
    return row is not None and (row.returncode or 0) < 0


def sender_of_tensors(job: JobState, finding: Finding) -> str | None:
    """A receiver is rebuilding a shared tensor, which needs its sender alive, and no living process is a suspect."""
    receivers = _receivers(job, finding)
    if not receivers or any(not row.dead and row.pid not in receivers for row in finding.suspects):
        return None
    return (
        "The sender of a tensor must stay alive and keep it until the receiver has it: let it wait for an answer (an Event, "
        "JoinableQueue.join()), or use torch.multiprocessing.set_sharing_strategy('file_system')."
    )


def queue_of_its_own(job: JobState, finding: Finding) -> str | None:
    """A process and a child of it that was not forked each wait for items of a queue that no other process has open."""
    if finding.cause not in _NO_ITEM:
        return None
    for row in _all(finding):
        if _in_own_queue(job, row.pid) is None:
            continue
        for child in job.clients.get(row.pid, ()):
            if not job.is_forked(child) and (queue := _in_own_queue(job, child)):
                return (
                    f"{job.role(child).name} waits for items of {queue}, which no other process has open: a module-level "
                    "queue is created again in each process that spawn or forkserver starts, so it is not shared. Make it "
                    "in main() and pass it to the process as an argument."
                )
    return None


def _in_own_queue(job: JobState, pid: int) -> str | None:
    """The queue for an item of which its main thread waits, and which only it has open."""
    key = (pid, pid)
    if job.wait_state(key).kind is not Wait.QUEUE_GET:
        return None
    for item in job.waits_on(key):
        ends = job.holders.get(item.id, ())
        if ends and all(handle.pid == pid for handle in ends) and not job.outsiders.get(item.id):
            return item.id
    return None


def named_pipe(job: JobState, finding: Finding) -> str | None:
    """A suspect opens a named pipe, which waits until its other end is opened, fifo(7)."""
    if not any(opens_pipe(job.blocked.get((row.pid, row.tid or row.pid))) for row in finding.suspects):
        return None
    return (
        "Opening a named pipe waits until another process opens its other end: look for the process that should, and open "
        "several pipes in the same order on both sides."
    )


def _receivers(job: JobState, finding: Finding) -> set[int]:
    """The processes of the finding that are rebuilding a tensor."""
    files = ("torch/multiprocessing/reductions.py", "multiprocessing/resource_sharer.py")
    wanted = ("rebuild_storage_fd", "rebuild_storage_filename", "rebuild_cuda_tensor", "detach", "get_connection")
    return {
        stack.pid for stack in _stacks(job, finding) for frame in stack.frames
        if frame.file.endswith(files) and bare(frame.function) in wanted
    }  # fmt: skip


ADVICE: tuple[Advice, ...] = (
    main_guard,
    backtracking,
    fork_after_cuda,
    fork_after_threads,
    items_of_the_feeder,
    sender_of_tensors,
    queue_of_its_own,
    named_pipe,
    more_workers_than_cpus,
)


def _start(job: JobState, pid: int) -> str:
    """The call that starts a child by another method."""
    if job.role(pid).kind == LOADER_WORKER:
        return 'use DataLoader(multiprocessing_context="forkserver")'
    torch = any(
        "/torch/" in frame.file for key in job.threads(pid) if (stack := job.stacks.get(key)) for frame in stack.frames
    )
    library = "torch.multiprocessing" if torch else "multiprocessing"
    return f'call {library}.set_start_method("forkserver") at the start of the program'


def _all(finding: Finding) -> tuple[Suspect | Waiter, ...]:
    """All suspects and waiters."""
    return (*finding.suspects, *finding.waiters)


def _stacks(job: JobState, finding: Finding) -> Iterator[Stack]:
    """The main threads' stacks of all processes in the finding."""
    for row in _all(finding):
        if (row.pid, row.pid) in job.stacks:
            yield job.stacks[row.pid, row.pid]
