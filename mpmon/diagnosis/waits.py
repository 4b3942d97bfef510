"""What each thread waits for, in the words of the program: one table of frames, refined by what the kernel says.

Theory.  The innermost frames of a blocked thread belong to the machinery (standard library, torch), called by somebody's
code.  Within these frames the outermost one that the table knows gives the meaning: `poll` called by `Connection.recv`
called by `Queue.get` called by `_try_get_data` is *the next batch*, not *a poll*.
A thread whose innermost frame is not machinery is in its own code: then the system call tells (asleep, in a file, in a
socket), or it runs.

A row of the table says: a frame of FILE named one of FUNCTIONS means KIND.  Rows higher up win over rows further down
when they name the same frame.  To teach mpmon a new library, add a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

import msgspec

from mpmon.diagnosis.frames import bare, calls, inner_machinery, is_machinery, is_user, own_frames
from mpmon.diagnosis.libraries.copies import known_as
from mpmon.model import Blocked, Frame, Stack


class Wait(Enum):
    """Kinds of standing still."""

    # By identity, as they are compared: the hash of an Enum is a call of a function in Python.
    __hash__ = object.__hash__

    LOADER_BATCH = auto()
    """A trainer waits for the next batch of its DataLoader workers."""
    LOADER_INDEX = auto()
    """A DataLoader worker waits for work: idle by right."""
    POOL_TASK = auto()
    """A pool or executor worker waits for work: idle by right."""
    POOL_RESULT = auto()
    """Somebody waits for the result of a pool."""
    FUTURE_RESULT = auto()
    JOIN_PROCESS = auto()
    """Waits for the end of a child."""
    JOIN_THREAD = auto()
    EXIT = auto()
    """The interpreter is shutting down and waits for threads or children."""
    QUEUE_GET = auto()
    """multiprocessing queue or pipe: waits for an item."""
    QUEUE_PUT = auto()
    """multiprocessing queue: waits for room."""
    THREAD_QUEUE = auto()
    """queue.Queue, between threads of one process."""
    CONDITION = auto()
    """Event, condition or barrier between threads of one process."""
    PROCESS_EVENT = auto()
    """Event, condition or barrier between processes."""
    LOCK = auto()
    """A lock or semaphore between processes."""
    COLLECTIVE = auto()
    """Inside a collective or point-to-point operation of torch.distributed."""
    RENDEZVOUS = auto()
    """Gathering the ranks, or a key of the store."""
    STORE_KEY = auto()
    """A key of the store of torch.distributed that some other client has to set."""
    REMOTE_CALL = auto()
    """An answer of another process to a call by torch.distributed.rpc."""
    REMOTE_END = auto()
    """A graceful end of torch.distributed.rpc: serves the others until all of them have come to it."""
    LAUNCHER = auto()
    """A launcher watches its ranks."""
    SIGNAL = auto()
    """The root has started others and waits for a signal; whose progress counts is theirs."""
    SERVICE = auto()
    """A helper thread or process waits for requests: idle by right."""
    DEBUGGER = auto()
    """pdb, breakpoint() or input() waits for somebody to type."""
    OTHER_CLIENTS = auto()
    """A manager's object blocks one client's call until another client does something."""
    # What the kernel alone tells:
    SLEEP = auto()
    FUTEX = auto()
    """A lock of this process, of which nothing more is known."""
    THREAD_LOCK = auto()
    """A lock between threads of this process, whose holder the interpreter or the lock itself names."""
    PIPE_READ = auto()
    PIPE_WRITE = auto()
    SOCKET = auto()
    EVENT_LOOP = auto()
    """asyncio waits for its next event: a timer, a descriptor, a call from another thread."""
    POLL = auto()
    FILE_LOCK = auto()
    CHILD = auto()
    FILE = auto()
    """Reading, writing, opening or syncing a file."""
    RUNNING = auto()
    """On a CPU, or ready to be."""
    STOPPED = auto()
    UNKNOWN = auto()


ENDS = frozenset({Wait.JOIN_PROCESS, Wait.CHILD, Wait.EXIT, Wait.LAUNCHER})
"""Waits for processes to end."""

READS = frozenset({Wait.QUEUE_GET, Wait.PIPE_READ, Wait.LOADER_BATCH, Wait.POOL_RESULT, Wait.FUTURE_RESULT})
"""Waits for what others send."""

STDERR = 2
"""The last of the standard descriptors."""

IDLE = frozenset({Wait.LOADER_INDEX, Wait.POOL_TASK, Wait.SERVICE})
"""Idle by right: nobody has asked for anything."""


class Pattern(msgspec.Struct, frozen=True):
    """One row of the table."""

    kind: Wait
    file: str
    functions: frozenset[str]
    words: str = ""
    """What to call it; else the function's name."""
    called: str | None = None
    """The frame it must have called last; empty: it must be the innermost frame itself."""
    encloses: bool = False
    """It calls others that wait: what one of them is called says more."""


def _row(
    kind: Wait, file: str, functions: str, words: str = "", called: str | None = None, *, encloses: bool = False
) -> Pattern:
    return Pattern(kind, file, frozenset(functions.split()), words, called, encloses)


_COLLECTIVES = (
    "all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_into_tensor all_gather_single "
    "all_gather_coalesced gather scatter reduce_scatter reduce_scatter_tensor reduce_scatter_single all_to_all "
    "all_to_all_single barrier monitored_barrier "
    "all_gather_object gather_object broadcast_object_list scatter_object_list send recv isend irecv "
    "send_object_list recv_object_list batch_isend_irecv wait _sync_buffers"
)

POINT_TO_POINT = frozenset(
    {"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "batch_isend_irecv"}
)
"""Operations between two ranks."""

ASYNCHRONOUS = "an asynchronous operation"
"""The word for what a rank waits for that called `Work.wait()` itself: a collective, or an operation between two ranks."""

BACKWARD = "backward"
"""The word for a backward pass, in which DistributedDataParallel and FSDP reduce gradients."""

PATTERNS: tuple[Pattern, ...] = (
    _row(Wait.DEBUGGER, "/pdb.py", "interaction set_trace _cmdloop cmdloop", "pdb"),
    _row(Wait.DEBUGGER, "/cmd.py", "cmdloop", "a debugger's prompt"),
    _row(Wait.DEBUGGER, "/code.py", "interact raw_input", "an interactive prompt"),
    _row(Wait.DEBUGGER, "torch/distributed/_debug.py", "breakpoint", "a breakpoint"),
    _row(Wait.LOADER_BATCH, "torch/utils/data/dataloader.py", "_try_get_data _get_data", "next batch"),
    _row(Wait.LOADER_INDEX, "torch/utils/data/_utils/worker.py", "_worker_loop", "work", called="get"),
    _row(Wait.SERVICE, "torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop do_one_step", "batches to pin"),
    _row(Wait.POOL_TASK, "multiprocessing/pool.py", "worker", "work", called="get"),
    _row(Wait.SERVICE, "multiprocessing/pool.py", "_handle_workers _handle_tasks _handle_results _wait_for_updates"),
    _row(Wait.POOL_RESULT, "multiprocessing/pool.py", "get wait next map starmap apply", "pool result"),
    _row(Wait.JOIN_PROCESS, "multiprocessing/pool.py", "join _help_stuff_finish", "the pool to end"),
    _row(Wait.POOL_TASK, "concurrent/futures/process.py", "_process_worker", "work", called="get"),
    _row(Wait.SERVICE, "concurrent/futures/process.py", "run wait_result_broken_or_wakeup", "executor results"),
    _row(Wait.POOL_TASK, "concurrent/futures/thread.py", "_worker", "work", called=""),
    _row(Wait.FUTURE_RESULT, "concurrent/futures/_base.py", "result exception wait as_completed result_iterator"),
    _row(Wait.JOIN_THREAD, "concurrent/futures/thread.py", "shutdown _python_exit", "executor threads to end"),
    _row(Wait.JOIN_PROCESS, "concurrent/futures/process.py", "shutdown _python_exit", "executor to end"),
    _row(Wait.EXIT, "/threading.py", "_shutdown", "threads to end"),
    _row(Wait.EXIT, "multiprocessing/util.py", "_exit_function", "children to end"),
    _row(Wait.LAUNCHER, "torch/distributed/elastic/agent/server/api.py", "run _invoke_run", "its ranks"),
    _row(Wait.LAUNCHER, "torch/distributed/elastic/multiprocessing/api.py", "wait _poll join", "its ranks"),
    _row(Wait.JOIN_PROCESS, "torch/multiprocessing/spawn.py", "join", "its processes to end"),
    _row(Wait.RENDEZVOUS, "torch/distributed/rendezvous.py", "_create_c10d_store _env_rendezvous_handler next_rendezvous"),
    _row(Wait.COLLECTIVE, "torch/distributed/distributed_c10d.py", "new_group"),
    _row(Wait.RENDEZVOUS, "torch/distributed/distributed_c10d.py", "init_process_group _new_process_group_helper "
         "_store_based_barrier", "init_process_group"),
    _row(Wait.RENDEZVOUS, "elastic/rendezvous/static_tcp_rendezvous.py", "next_rendezvous", "the other nodes"),
    _row(Wait.RENDEZVOUS, "elastic/rendezvous/dynamic_rendezvous.py", "next_rendezvous", "the other nodes"),
    _row(Wait.RENDEZVOUS, "torch/distributed/elastic/utils/store.py", "get_all synchronize barrier store_timeout"),
    _row(Wait.COLLECTIVE, "torch/distributed/distributed_c10d.py", _COLLECTIVES),
    _row(Wait.COLLECTIVE, "torch/distributed/_functional_collectives.py", "wait_tensor all_reduce all_gather_tensor "
         "reduce_scatter_tensor broadcast all_to_all_single"),
    _row(Wait.COLLECTIVE, "torch/nn/parallel/distributed.py", "_sync_buffers _verify_param_shape_across_processes "
         "_sync_module_states join forward", "DistributedDataParallel"),
    _row(Wait.COLLECTIVE, "torch/distributed/utils.py", "_sync_params_and_buffers _verify_param_shape_across_processes"),
    _row(Wait.COLLECTIVE, "torch/distributed/algorithms/join.py", "__exit__ notify_join_context"),
    _row(Wait.REMOTE_END, "torch/distributed/rpc/api.py", "shutdown _wait_all_workers _barrier", "rpc.shutdown"),
    _row(Wait.REMOTE_CALL, "torch/distributed/rpc/api.py", "rpc_sync", "an answer of another process"),
    _row(Wait.EVENT_LOOP, "asyncio/base_events.py", "_run_once run_forever", "events of its loop"),
    _row(Wait.COLLECTIVE, "torch/autograd/graph.py", "_engine_run_backward", BACKWARD, encloses=True),
    _row(Wait.QUEUE_PUT, "multiprocessing/queues.py", "put", "room in a queue"),
    _row(Wait.QUEUE_GET, "multiprocessing/queues.py", "get", "an item of a queue"),
    _row(Wait.PROCESS_EVENT, "multiprocessing/queues.py", "join", "tasks of a queue to be done"),
    _row(Wait.SERVICE, "multiprocessing/queues.py", "_feed", "items to send"),
    _row(Wait.JOIN_THREAD, "multiprocessing/queues.py", "_finalize_join join_thread", "the queue's feeder thread"),
    _row(Wait.SERVICE, "multiprocessing/resource_sharer.py", "_serve"),
    _row(Wait.SERVICE, "multiprocessing/managers.py", "serve_forever accepter", "requests"),
    _row(Wait.SERVICE, "multiprocessing/managers.py", "serve_client _handle_request handle_request", "requests",
         called="recv"),
    _row(Wait.PIPE_WRITE, "multiprocessing/managers.py", "serve_client", "room for its answer", called="send"),
    _row(Wait.OTHER_CLIENTS, "multiprocessing/managers.py", "serve_client", "another client of the manager"),
    _row(Wait.SERVICE, "multiprocessing/forkserver.py", "main", called="select"),
    _row(Wait.SERVICE, "multiprocessing/resource_tracker.py", "main"),
    _row(Wait.SERVICE, "/socketserver.py", "serve_forever", "requests"),
    _row(Wait.SERVICE, "http/server.py", "handle_one_request", "requests", called="readinto"),
    _row(Wait.JOIN_PROCESS, "multiprocessing/process.py", "join", "a child to end"),
    _row(Wait.JOIN_PROCESS, "multiprocessing/popen_fork.py", "wait poll"),
    _row(Wait.JOIN_PROCESS, "/subprocess.py", "wait _wait call run check_call _try_wait", "a subprocess to end"),
    _row(Wait.QUEUE_GET, "/subprocess.py", "communicate _communicate check_output", "output of a subprocess"),
    _row(Wait.JOIN_THREAD, "/threading.py", "join _wait_for_tstate_lock", "a thread to end"),
    _row(Wait.PROCESS_EVENT, "multiprocessing/synchronize.py", "wait wait_for", "an event between processes"),
    _row(Wait.LOCK, "multiprocessing/synchronize.py", "__enter__ acquire", "a lock between processes"),
    _row(Wait.QUEUE_GET, "multiprocessing/connection.py", "recv recv_bytes _recv _recv_bytes poll _poll wait", "a message"),
    _row(Wait.PIPE_WRITE, "multiprocessing/connection.py", "send send_bytes _send _send_bytes", "room in a pipe"),
    _row(Wait.SOCKET, "multiprocessing/connection.py", "accept Client SocketClient"),
    _row(Wait.FILE_LOCK, "filelock/_api.py", "acquire __enter__", "a file lock"),
    _row(Wait.THREAD_QUEUE, "/queue.py", "get put join", "a queue between threads"),
    _row(Wait.CONDITION, "/threading.py", "wait wait_for acquire __enter__ _wait _enter", "an event between threads"),
)  # fmt: skip
"""The first row that matches a frame names it; the outermost frame that has a name wins."""

_BY_FUNCTION: dict[str, list[Pattern]] = {}
for _pattern in PATTERNS:
    for _name in _pattern.functions:
        _BY_FUNCTION.setdefault(_name, []).append(_pattern)

SLEEP_CALLS = frozenset({"nanosleep", "clock_nanosleep", "pause", "rt_sigsuspend", "rt_sigtimedwait"})
_POLLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
_FILE_CALLS = frozenset(
    {"fsync", "fdatasync", "openat", "open", "newfstatat", "pread64", "pwrite64", "copy_file_range"}
)


class Standing(msgspec.Struct, frozen=True, gc=False):
    """What one thread waits for."""

    kind: Wait
    words: str
    """In the words of the program: `next batch`, `all_reduce`, `time.sleep`."""
    frame: Frame | None = None
    """The frame that gave the meaning."""

    @property
    def idle(self) -> bool:
        """Idle by right."""
        return self.kind in IDLE


STOPPED = Standing(Wait.STOPPED, "stopped by a signal")


def standing(stack: Stack | None, blocked: Blocked | None) -> Standing:
    """What a thread waits for, from its frames and the kernel."""
    if blocked and blocked.state in "Tt":
        return STOPPED if blocked.state == "T" else Standing(Wait.STOPPED, "held by a debugger")
    found = _from_frames(stack) if stack else None
    if found and not (found.kind is Wait.COLLECTIVE and _finished(blocked)):
        return _sharpened(found, blocked)
    return _from_kernel(stack, blocked)


def _from_frames(stack: Stack) -> Standing | None:
    best: Standing | None = None
    called = ""
    for frame in inner_machinery(stack):
        function = bare(frame.function)
        for pattern in _BY_FUNCTION.get(function, ()):
            if known_as(frame.file).endswith(pattern.file) and pattern.called in (None, called):
                found = Standing(pattern.kind, pattern.words or function, frame)
                inner_wins = best and (
                    (pattern.encloses and best.kind is found.kind) or (best.kind, found.kind) in _INNER_WINS
                )
                best = best if inner_wins else found
                break
        called = function
    return best


def in_barrier(stack: Stack | None) -> bool:
    """In a barrier of Lib/threading.py, which that of multiprocessing is built on: nobody else has a function of that name."""
    return stack is not None and any(
        bare(frame.function) == "_wait" and frame.file.endswith("/threading.py") for frame in inner_machinery(stack)
    )


_INNER_WINS = frozenset({(Wait.RENDEZVOUS, Wait.LAUNCHER), (Wait.PROCESS_EVENT, Wait.CONDITION),
                         (Wait.POOL_RESULT, Wait.OTHER_CLIENTS)})  # fmt: skip
"""Pairs in which the inner frame says more: an agent that still gathers its ranks, a barrier between processes."""


def _finished(blocked: Blocked | None) -> bool:
    return blocked is not None and blocked.state == "R"


def _sharpened(found: Standing, blocked: Blocked | None) -> Standing:
    """Frames say what the program means; a feeder thread that writes is not idle, whatever its frames are called."""
    if found.kind is not Wait.SERVICE or blocked is None or blocked.state != "S":
        return found
    if blocked.writes:
        return Standing(Wait.PIPE_WRITE, "room in a pipe", found.frame)
    if any(name.startswith("semaphore:") for name in blocked.waits_on):
        return Standing(Wait.LOCK, "a lock between processes", found.frame)
    return found


def _from_kernel(stack: Stack | None, blocked: Blocked | None) -> Standing:
    if blocked is None:
        return Standing(Wait.UNKNOWN, "unknown")
    if blocked.state == "R" or blocked.syscall == "running":
        return Standing(Wait.RUNNING, "runs")
    name = blocked.syscall or ""
    if name in SLEEP_CALLS or (blocked.wakes_at is not None and name != "futex"):
        return Standing(Wait.SLEEP, "time.sleep" if stack else "sleep")
    kinds = [object_id.partition(":")[0] for object_id in blocked.waits_on]
    return _from_call(name, kinds, blocked)


def _from_call(name: str, kinds: list[str], blocked: Blocked) -> Standing:
    if name == "futex":
        kind = Wait.LOCK if "semaphore" in kinds else Wait.FUTEX
        return Standing(kind, "a lock")
    if name in ("flock", "fcntl") and kinds:
        return Standing(Wait.FILE_LOCK, "a file lock")
    if name == "vfork" or (name in ("clone", "clone3") and kinds == ["process"]):
        return Standing(Wait.CHILD, "a child to become another program")
    if name in ("wait4", "waitid") or kinds == ["process"]:
        return Standing(Wait.CHILD, "a child to end")
    if "terminal" in kinds:
        return (
            Standing(Wait.DEBUGGER, "somebody to type")
            if _prompts(blocked)
            else Standing(Wait.FILE, "reading a device")
        )
    if name in _POLLS and blocked.timeout_s is not None:
        return Standing(Wait.POLL, "events")
    if "pty" in kinds and not blocked.writes:
        return Standing(Wait.PIPE_READ, "what is printed to a terminal")
    if "pipe" in kinds:
        return Standing(
            Wait.PIPE_WRITE if blocked.writes else Wait.PIPE_READ, "room in a pipe" if blocked.writes else "a pipe"
        )
    if "socket" in kinds:
        return Standing(Wait.SOCKET, "a socket")
    if name in _FILE_CALLS or blocked.state == "D" or name in ("read", "write"):
        return Standing(Wait.FILE, _FILE_WORDS.get(name, "reading or writing a file"))
    if kinds or name in _POLLS:
        return Standing(Wait.POLL, "events")
    return Standing(Wait.UNKNOWN, name or "unknown")


def _prompts(blocked: Blocked) -> bool:
    """It reads from the terminal at which a person sits. Another one that it has opened is a device, such as a serial line."""
    own = {"terminal:/dev/tty", "terminal:/dev/console"}
    return blocked.syscall != "read" or blocked.args[:1] <= (STDERR,) or not own.isdisjoint(blocked.waits_on)


_FILE_WORDS = {
    "openat": "opening a file",
    "open": "opening a file",
    "fsync": "syncing a file to its disk",
    "fdatasync": "syncing a file to its disk",
}


class Context(Enum):
    """The library call that encloses the user's code and waits for it to return."""

    DATALOADER_WORKER = "a DataLoader worker's item"
    SAMPLER = "the DataLoader's sampler"
    POOL_WORKER = "a pool task"
    EXECUTOR_THREAD = "an executor's task"


_CONTEXTS: tuple[tuple[Context, str, frozenset[str]], ...] = (
    (Context.DATALOADER_WORKER, "torch/utils/data/_utils/worker.py", frozenset({"_worker_loop"})),
    (Context.SAMPLER, "torch/utils/data/dataloader.py", frozenset({"_next_index"})),
    (Context.POOL_WORKER, "multiprocessing/pool.py", frozenset({"worker"})),
    (Context.POOL_WORKER, "concurrent/futures/process.py", frozenset({"_process_worker"})),
    (Context.EXECUTOR_THREAD, "concurrent/futures/thread.py", frozenset({"_worker", "run"})),
)


def context(stack: Stack | None) -> tuple[Context, int] | None:
    """The innermost enclosing call of the table, with its position in `stack.frames`."""
    for position, frame in enumerate(own_frames(stack) if stack else ()):
        for kind, file_end, functions in _CONTEXTS:
            if calls(frame, file_end, functions):
                return kind, position
    return None


def user_lines(stack: Stack) -> Iterable[Frame]:
    """The user's frames, innermost first."""
    return (frame for frame in own_frames(stack) if is_user(frame.file))


def in_own_code(stack: Stack | None) -> bool:
    """Whether the innermost frame is not machinery: a blocking call made directly by the user's or a library's code."""
    return bool(stack and stack.frames and not is_machinery(stack.frames[0].file))
