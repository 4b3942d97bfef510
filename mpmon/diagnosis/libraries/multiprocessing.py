"""multiprocessing: processes, queues, pools, managers, what they share."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Context, HelperRow, Library, Wait, WorkerRow, functions, polls, waits

LIBRARY = Library(
    waits=(
        waits(Wait.POOL_TASK, "multiprocessing/pool.py", "worker", "work", called="get"),
        waits(Wait.SERVICE, "multiprocessing/pool.py", "_handle_workers _handle_results _wait_for_updates"),
        # Else it is in the iterable of tasks, which is the program's.
        waits(Wait.SERVICE, "multiprocessing/pool.py", "_handle_tasks", called=""),
        waits(Wait.SERVICE, "multiprocessing/pool.py", "_handle_tasks", called="send"),
        waits(Wait.POOL_RESULT, "multiprocessing/pool.py", "get wait next map starmap apply", "the result of a pool task"),
        waits(Wait.JOIN_PROCESS, "multiprocessing/pool.py", "join _help_stuff_finish", "the pool to end"),
        waits(Wait.EXIT, "multiprocessing/util.py", "_exit_function", "children to exit"),
        waits(Wait.QUEUE_PUT, "multiprocessing/queues.py", "put", "room in a queue"),
        waits(Wait.QUEUE_GET, "multiprocessing/queues.py", "get", "an item from a queue"),
        waits(Wait.PROCESS_EVENT, "multiprocessing/queues.py", "join", "all tasks of a queue to be done"),
        waits(Wait.SERVICE, "multiprocessing/queues.py", "_feed", "items to send"),
        waits(Wait.JOIN_THREAD, "multiprocessing/queues.py", "_finalize_join join_thread", "the queue's feeder thread"),
        waits(Wait.SERVICE, "multiprocessing/resource_sharer.py", "_serve"),
        waits(Wait.SERVICE, "multiprocessing/managers.py", "serve_forever accepter", "requests"),
        waits(Wait.SERVICE, "multiprocessing/managers.py", "serve_client _handle_request handle_request", "requests",
         called="recv"),
        waits(Wait.PIPE_WRITE, "multiprocessing/managers.py", "serve_client", "room for its answer", called="send"),
        waits(Wait.OTHER_CLIENTS, "multiprocessing/managers.py", "serve_client", "another client of the manager"),
        waits(Wait.SERVICE, "multiprocessing/forkserver.py", "main", called="select"),
        waits(Wait.FORK_SERVER, "multiprocessing/popen_forkserver.py", "_launch", "the fork server to start a process"),
        waits(Wait.SERVICE, "multiprocessing/resource_tracker.py", "main"),
        waits(Wait.JOIN_PROCESS, "multiprocessing/process.py", "join", "a child to exit"),
        waits(Wait.JOIN_PROCESS, "multiprocessing/popen_fork.py", "wait poll"),
        waits(Wait.PROCESS_EVENT, "multiprocessing/synchronize.py", "wait wait_for", "a multiprocessing event"),
        waits(Wait.LOCK, "multiprocessing/synchronize.py", "notify", "the processes it notified to wake up"),
        waits(Wait.LOCK, "multiprocessing/synchronize.py", "__enter__ acquire", "a multiprocessing lock"),
        waits(Wait.QUEUE_GET, "multiprocessing/connection.py", "recv recv_bytes _recv _recv_bytes poll _poll wait", "a message"),
        waits(Wait.PIPE_WRITE, "multiprocessing/connection.py", "send send_bytes _send _send_bytes", "room in a pipe"),
        waits(Wait.SOCKET, "multiprocessing/connection.py", "accept", "a connection"),
        waits(Wait.SOCKET, "multiprocessing/connection.py", "Client SocketClient", "its server to accept the connection"),
    ),
    polls=(
        polls(Wait.JOIN_PROCESS, "is_alive .exitcode active_children", "a child to exit"),
        polls(Wait.POOL_RESULT, "ready", "the result of a pool task"),
        polls(Wait.QUEUE_GET, "get_nowait empty qsize", "an item from a queue"),
    ),
    runs=((Context.POOL_WORKER, functions("multiprocessing/pool.py", "worker")),),
    workers=(WorkerRow("pool worker", functions("multiprocessing/pool.py", "worker"), given_name="PoolWorker-"),),
    helpers=(
        HelperRow("resource tracker", "multiprocessing.resource_tracker import main", lasts=True),
        HelperRow("forkserver", "multiprocessing.forkserver import main", lasts=True, bequeaths=True),
        HelperRow("manager", functions=functions("multiprocessing/managers.py", "serve_forever _run_server")),
    ),
    serves_one=(functions("multiprocessing/managers.py", "handle_request"),),
    serves_itself=(functions("multiprocessing/resource_sharer.py", "_serve"),),
    only_waits=(
        functions("multiprocessing/connection.py", "_recv _send"),
        functions("multiprocessing/popen_fork.py", "poll"),
    ),
)  # fmt: skip
