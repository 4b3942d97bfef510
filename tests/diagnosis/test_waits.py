"""What a thread waits for: one stack, as Python and torch really make it, for every kind of the table."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.libraries import WAITS
from mpmon.diagnosis.stacks.waits import Context, Wait, WaitState, context, in_own_code, wait_state
from mpmon.model import Blocked, Stack
from tests.builders import blocked, running, stack

SELECT = "lib/selectors.py:415 _PollLikeSelector.select"
CONNECTION_WAIT = "multiprocessing/connection.py:947 wait"
POLL = (SELECT, CONNECTION_WAIT, "multiprocessing/connection.py:440 Connection._poll")
RECV = (
    "multiprocessing/connection.py:395 Connection._recv",
    "multiprocessing/connection.py:430 Connection._recv_bytes",
    "multiprocessing/connection.py:216 _ConnectionBase.recv_bytes",
)
QUEUE_GET = (*POLL, "multiprocessing/connection.py:257 _ConnectionBase.poll", "multiprocessing/queues.py:113 Queue.get")
LOADER = "torch/utils/data/dataloader.py"
WORKER_LOOP = "torch/utils/data/_utils/worker.py:374 _worker_loop"
PROCESS = ("multiprocessing/process.py:108 BaseProcess.run", "multiprocessing/process.py:314 BaseProcess._bootstrap")
THREAD = ("lib/threading.py:982 Thread.run", "lib/threading.py:1045 Thread._bootstrap_inner")
CONDITION = "lib/threading.py:327 Condition.wait"
MANAGER = (
    "multiprocessing/managers.py:419 Server.accept_connection", "multiprocessing/managers.py:209 Server._handle_request",
    "multiprocessing/managers.py:187 Server.handle_request",
)  # fmt: skip
C10D = "torch/distributed/distributed_c10d.py"
LOGGED = "torch/distributed/c10d_logger.py:83 _exception_logger.<locals>.wrapper"

STACKS: list[tuple[Wait, str, tuple[str, ...]]] = [
    (Wait.LOADER_BATCH, "next batch", (*QUEUE_GET, f"{LOADER}:1291 _MultiProcessingDataLoaderIter._try_get_data",
                                      f"{LOADER}:1464 _MultiProcessingDataLoaderIter._get_data", "train.py:7 main")),
    (Wait.EVENT_LOOP, "events of its loop", ("lib/selectors.py:468 EpollSelector.select",
                                             "asyncio/base_events.py:1898 BaseEventLoop._run_once",
                                             "asyncio/base_events.py:607 BaseEventLoop.run_forever", "serve.py:9 main")),
    (Wait.EVENT_LOOP, "events of its loop", ("asyncio/runners.py:118 Runner.run", "uvicorn/_compat.py:30 asyncio_run",
                                             "serve.py:9 main")),
    (Wait.DEBUGGER, "a debugger", (
        CONDITION, "lib/threading.py:629 Event.wait",
        "site-packages/debugpy/_vendored/pydevd/pydevd.py:981 PyDB.block_until_configuration_done",
        "site-packages/debugpy/server/api.py:325 wait_for_client_cls.__call__", "train.py:29 attach",
    )),
    (Wait.LOADER_INDEX, "work", (*QUEUE_GET, "torch/utils/data/_utils/worker.py:334 _worker_loop", *PROCESS)),
    (Wait.SERVICE, "batches to pin", (*QUEUE_GET, "torch/utils/data/_utils/pin_memory.py:32 do_one_step",
                                      "torch/utils/data/_utils/pin_memory.py:55 _pin_memory_loop", *THREAD)),
    (Wait.SERVICE, "items to send", (CONDITION, "multiprocessing/queues.py:231 Queue._feed", *THREAD)),
    (Wait.SERVICE, "_serve", ("lib/socket.py:294 socket.accept", "multiprocessing/connection.py:479 Listener.accept",
                              "multiprocessing/resource_sharer.py:138 _ResourceSharer._serve", *THREAD)),
    (Wait.SERVICE, "requests", (*RECV[:2], "multiprocessing/connection.py:250 _ConnectionBase.recv",
                                "multiprocessing/managers.py:231 Server.serve_client", *MANAGER, *THREAD)),
    (Wait.SERVICE, "requests", ("lib/socket.py:718 SocketIO.readinto",
                                "lib/http/server.py:404 BaseHTTPRequestHandler.handle_one_request",
                                "lib/http/server.py:436 BaseHTTPRequestHandler.handle", *THREAD)),
    (Wait.OTHER_CLIENTS, "another client of the manager", (CONDITION, "lib/queue.py:171 Queue.get",
                                "multiprocessing/managers.py:244 Server.serve_client", *MANAGER, *THREAD)),
    (Wait.OTHER_CLIENTS, "another client of the manager", ("multiprocessing/managers.py:244 Server.serve_client",
                                                           *MANAGER, *THREAD)),
    (Wait.PIPE_WRITE, "room for its answer", ("multiprocessing/connection.py:384 Connection._send",
                                              "multiprocessing/connection.py:206 _ConnectionBase.send",
                                              "multiprocessing/managers.py:272 Server.serve_client", *MANAGER, *THREAD)),
    (Wait.SERVICE, "main", ("multiprocessing/resource_tracker.py:227 main", "<string>:1 <module>")),
    (Wait.POOL_TASK, "work", (*RECV, "multiprocessing/queues.py:365 SimpleQueue.get",
                              "multiprocessing/pool.py:114 worker", *PROCESS)),
    (Wait.POOL_TASK, "work", ("multiprocessing/synchronize.py:95 SemLock.__enter__",
                              "multiprocessing/queues.py:364 SimpleQueue.get", "multiprocessing/pool.py:114 worker")),
    (Wait.POOL_TASK, "work", (*RECV, "multiprocessing/queues.py:103 Queue.get",
                              "concurrent/futures/process.py:243 _process_worker", *PROCESS)),
    (Wait.POOL_TASK, "work", ("concurrent/futures/thread.py:81 _worker", *THREAD)),
    (Wait.POOL_RESULT, "the result of a pool task", (CONDITION, "lib/threading.py:629 Event.wait",
                                       "multiprocessing/pool.py:768 ApplyResult.wait",
                                       "multiprocessing/pool.py:774 ApplyResult.get",
                                       "multiprocessing/pool.py:367 Pool.map", "train.py:7 main")),
    (Wait.FUTURE_RESULT, "the result of a task", (CONDITION, "concurrent/futures/_base.py:451 Future.result", "train.py:7 main")),
    (Wait.JOIN_PROCESS, "a child to exit", ("multiprocessing/popen_fork.py:27 Popen.poll",
                                           "multiprocessing/popen_fork.py:43 Popen.wait",
                                           "multiprocessing/process.py:149 BaseProcess.join", "train.py:7 main")),
    (Wait.FORK_SERVER, "the fork server to start a process", (
        "multiprocessing/forkserver.py:326 read_signed", "multiprocessing/popen_forkserver.py:59 Popen._launch",
        "multiprocessing/process.py:121 BaseProcess.start", "train.py:7 main",
    )),
    (Wait.JOIN_PROCESS, "its processes to exit", (SELECT, CONNECTION_WAIT,
                                                 "torch/multiprocessing/spawn.py:140 ProcessContext.join",
                                                 "torch/multiprocessing/spawn.py:296 start_processes", "train.py:7 main")),
    (Wait.JOIN_PROCESS, "a subprocess to exit", ("lib/subprocess.py:2004 Popen._try_wait",
                                                "lib/subprocess.py:1264 Popen.wait", "train.py:26 evaluate")),
    (Wait.JOIN_THREAD, "a thread to end", ("lib/threading.py:1139 Thread._wait_for_tstate_lock",
                                           "lib/threading.py:1119 Thread.join", "train.py:7 main")),
    (Wait.JOIN_THREAD, "the queue's feeder thread", ("lib/threading.py:1139 Thread._wait_for_tstate_lock",
                                                     "lib/threading.py:1119 Thread.join",
                                                     "multiprocessing/queues.py:199 Queue._finalize_join")),
    (Wait.EXIT, "threads to end", ("lib/threading.py:1583 _shutdown",)),
    (Wait.EXIT, "children to exit", ("multiprocessing/process.py:149 BaseProcess.join",
                                    "multiprocessing/util.py:360 _exit_function")),
    (Wait.QUEUE_GET, "an item from a queue", (*RECV, "multiprocessing/queues.py:103 Queue.get", "job.py:5 consume")),
    (Wait.QUEUE_GET, "a message", (*RECV[:2], "multiprocessing/connection.py:250 _ConnectionBase.recv", "job.py:5 consume")),
    (Wait.QUEUE_PUT, "room in a queue", ("multiprocessing/queues.py:89 Queue.put", "job.py:16 produce", *PROCESS)),
    (Wait.PIPE_WRITE, "room in a pipe", ("multiprocessing/connection.py:384 Connection._send",
                                         "multiprocessing/connection.py:206 _ConnectionBase.send", "job.py:16 produce")),
    (Wait.SOCKET, "its server to accept the connection", ("multiprocessing/connection.py:635 SocketClient",
                             "multiprocessing/connection.py:507 Client", "job.py:16 produce")),
    (Wait.LOCK, "a multiprocessing lock", ("multiprocessing/synchronize.py:95 SemLock.__enter__", "job.py:49 __getitem__")),
    (Wait.PROCESS_EVENT, "a multiprocessing event", ("multiprocessing/synchronize.py:261 Condition.wait",
                                                        "multiprocessing/synchronize.py:349 Event.wait", "job.py:5 main")),
    (Wait.PROCESS_EVENT, "a multiprocessing event", ("multiprocessing/synchronize.py:261 Condition.wait",
                                                        "lib/threading.py:694 Barrier.wait", "job.py:5 main")),
    (Wait.FILE_LOCK, "a file lock", ("site-packages/filelock/_api.py:340 BaseFileLock.acquire",
                                     "site-packages/filelock/_api.py:383 BaseFileLock.__enter__", "job.py:5 main")),
    (Wait.THREAD_QUEUE, "an item from a thread queue", (CONDITION, "lib/queue.py:171 Queue.get", "job.py:5 main")),
    (Wait.CONDITION, "a threading event", (CONDITION, "lib/threading.py:629 Event.wait", "job.py:5 main")),
    (Wait.FUTEX, "a lock", ("lib/threading.py:299 Condition.__enter__", "lib/queue.py:133 Queue.put", "job.py:5 main")),
    (Wait.TIMER, "a timer to fire", (CONDITION, "lib/threading.py:629 Event.wait", "lib/threading.py:1399 Timer.run")),
    (Wait.COLLECTIVE, "all_reduce", (f"{C10D}:3252 all_reduce", LOGGED, "job.py:42 train")),
    (Wait.COLLECTIVE, "recv", (f"{C10D}:2740 recv", LOGGED, "job.py:42 train")),
    (Wait.COLLECTIVE, "DistributedDataParallel", ("torch/nn/parallel/distributed.py:1990 DistributedDataParallel._sync_buffers",
                                                  "torch/nn/parallel/distributed.py:1640 DistributedDataParallel.forward",
                                                  "job.py:42 train")),
    (Wait.RENDEZVOUS, "init_process_group", ("torch/distributed/rendezvous.py:190 _create_c10d_store",
                                             f"{C10D}:1762 init_process_group", LOGGED, "job.py:8 main")),
    (Wait.COLLECTIVE, "new_group", (f"{C10D}:1063 _store_based_barrier", LOGGED, f"{C10D}:6096 _new_group_with_tag",
                                    f"{C10D}:5863 new_group", "job.py:42 train")),
    (Wait.REMOTE_END, "rpc.shutdown", (CONDITION, "lib/threading.py:629 Event.wait",
                                       "torch/distributed/rpc/api.py:257 _all_gather",
                                       "torch/distributed/rpc/api.py:320 _wait_all_workers",
                                       "torch/distributed/rpc/api.py:382 shutdown", "job.py:61 run")),
    (Wait.REMOTE_CALL, "an answer of another process", ("torch/distributed/rpc/api.py:842 rpc_sync", "job.py:60 sample")),
    (Wait.LAUNCHER, "its ranks", ("torch/distributed/elastic/agent/server/api.py:923 SimpleElasticAgent._invoke_run",
                                  "torch/distributed/elastic/agent/server/api.py:745 SimpleElasticAgent.run",
                                  "torch/distributed/run.py:1019 run")),
    (Wait.DEBUGGER, "pdb", ("lib/cmd.py:126 Pdb.cmdloop", "lib/pdb.py:386 Pdb.interaction", "job.py:9 step")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words", "frames"), STACKS, ids=lambda value: getattr(value, "name", None))
def test_a_stack_says_what_is_waited_for(kind: Wait, words: str, frames: tuple[str, ...]) -> None:
    found = wait_state(stack("main", *frames), blocked("poll"))
    assert (found.kind, found.words) == (kind, words)


@pytest.mark.parametrize(("kind", "words", "frames"), STACKS, ids=lambda value: getattr(value, "name", None))
def test_python_before_3_11_has_bare_names(kind: Wait, words: str, frames: tuple[str, ...]) -> None:
    bare = [f"{place} {function.rpartition('.')[2]}" for place, _, function in (row.partition(" ") for row in frames)]
    found = wait_state(stack("main", *bare), blocked("poll"))
    assert (found.kind, found.words) == (kind, words)


def test_every_kind_of_the_table_has_an_example() -> None:
    assert {row.kind for row in WAITS} - {kind for kind, _, _ in STACKS} == set()


def test_a_row_speaks_of_its_own_file_only() -> None:
    assert wait_state(stack("main", "my/all_reduce.py:3 all_reduce"), blocked("poll")).kind is Wait.POLL


def test_the_wait_is_the_library_s_not_that_of_its_caller() -> None:
    inside = stack(
        "main", "lib/selectors.py:415 select", "site-packages/requests/api.py:9 get", f"{LOADER}:1291 _try_get_data"
    )
    assert wait_state(inside, blocked("poll", "socket:9")).kind is Wait.SOCKET


OWN = stack("main", "job.py:20 download")

KERNEL: list[tuple[Wait, str, Blocked]] = [
    (Wait.SLEEP, "time.sleep", blocked("clock_nanosleep")),
    (Wait.SLEEP, "time.sleep", blocked("select", wakes_at=7.0)),
    (Wait.FUTEX, "a lock", blocked("futex", "futex:4100:0x7f00")),
    (Wait.LOCK, "a lock", blocked("futex", "semaphore:00:1a:7:0")),
    (Wait.PIPE_READ, "data from a pipe", blocked("read", "pipe:7")),
    (Wait.PIPE_WRITE, "room in a pipe", blocked("write", "pipe:7", writes=True)),
    (Wait.SOCKET, "data from a socket", blocked("recvfrom", "socket:9")),
    (Wait.POLL, "events of its descriptors", blocked("epoll_wait")),
    (Wait.POLL, "events of its descriptors", blocked("epoll_wait", "pipe:7", "socket:9")),
    (Wait.PIPE_READ, "data from a pipe", blocked("epoll_wait", "pipe:7", "pipe:8")),
    (Wait.FILE_LOCK, "a file lock", blocked("flock", "file:08:01:5")),
    (Wait.CHILD, "a child to exit", blocked("wait4", "process:any")),
    (Wait.CHILD, "a child to call exec", blocked("vfork", "process:7", state="D")),
    (Wait.CHILD, "a child to call exec", blocked("clone3", "process:7", state="D")),
    (Wait.DEBUGGER, "somebody to type", blocked("read", "terminal:/dev/pts/0")),
    (Wait.PIPE_WRITE, "room in a terminal", blocked("write", "terminal:/dev/pts/0", writes=True)),
    (Wait.FILE, "reading a device", blocked("read", "terminal:/dev/ttyUSB0", args=(7,))),
    (Wait.FILE, "opening a file", blocked("openat")),
    (Wait.FILE, "blocked in open() of a named pipe", blocked("openat", wchan="wait_for_partner")),
    (Wait.FILE, "syncing a file to its disk", blocked("fsync", "file:08:01:5", state="D")),
    (Wait.RUNNING, "runs", running()),
    (Wait.STOPPED, "stopped by a signal", blocked(None, state="T")),
    (Wait.STOPPED, "held by a debugger", blocked(None, state="t")),
    (Wait.UNKNOWN, "unknown", blocked(None)),
]


@pytest.mark.parametrize(("kind", "words", "row"), KERNEL, ids=lambda value: getattr(value, "name", None))
def test_in_its_own_code_the_system_call_tells(kind: Wait, words: str, row: Blocked) -> None:
    assert wait_state(OWN, row) == WaitState(kind, words)


def test_nothing_known() -> None:
    assert wait_state(None, None).kind is Wait.UNKNOWN


def test_a_stopped_thread_is_stopped_wherever_it_stands() -> None:
    frames = next(frames for kind, _, frames in STACKS if kind is Wait.LOADER_INDEX)
    assert wait_state(stack("main", *frames), blocked(None, state="T")).kind is Wait.STOPPED


def test_a_feeder_thread_that_writes_is_not_idle() -> None:
    feeder = stack(
        "QueueFeederThread", "multiprocessing/connection.py:384 _send", "multiprocessing/queues.py:270 _feed"
    )
    assert wait_state(feeder, blocked("write", "pipe:7", writes=True)).kind is Wait.PIPE_WRITE
    assert wait_state(feeder, blocked("futex")).idle


@pytest.mark.parametrize(
    ("enclosing", "frames"),
    [
        (Context.DATALOADER_WORKER, ("job.py:20 download", "job.py:29 __getitem__", WORKER_LOOP, *PROCESS)),
        (Context.SAMPLER, ("job.py:9 __iter__", f"{LOADER}:740 _BaseDataLoaderIter._next_index", "job.py:30 main")),
        (Context.POOL_WORKER, ("job.py:9 task", "multiprocessing/pool.py:125 worker", *PROCESS)),
        (Context.POOL_WORKER, ("job.py:9 task", "concurrent/futures/process.py:261 _process_worker", *PROCESS)),
        (Context.EXECUTOR_THREAD, ("job.py:9 task", "concurrent/futures/thread.py:58 _WorkItem.run", *THREAD)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_who_called_the_user_s_code(enclosing: Context, frames: tuple[str, ...]) -> None:
    found = context(stack("main", *frames))
    assert found is not None
    assert found[0] is enclosing


def test_a_training_loop_was_called_by_nobody() -> None:
    assert context(stack("main", "train.py:7 step", "train.py:30 main")) is None
    assert context(None) is None


@pytest.mark.parametrize(
    ("row", "own"),
    [(OWN, True), (stack("main", SELECT, "job.py:3 main"), False), (stack("main"), False), (None, False)],
    ids=["own", "machinery", "no-frames", "no-stack"],
)
def test_in_own_code(row: Stack | None, *, own: bool) -> None:
    assert in_own_code(row) is own
