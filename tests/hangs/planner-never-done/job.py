import json, os, queue, socket, threading
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 3


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def measure(todo, sizes):
    while True:
        path = todo.get()
        try:
            sizes[path] = os.stat(path).st_size
        except FileNotFoundError:
            continue
        todo.task_done()


def plan(paths):
    todo, sizes = queue.Queue(), {}
    for _ in range(2):
        threading.Thread(target=measure, args=(todo, sizes), daemon=True).start()
    for path in paths:
        todo.put(path)
    truth("culprit")
    truth("settled")
    todo.join()  # CULPRIT
    return sizes


def work(rank, port):
    truth("role", role=f"rank {rank}")
    hour = timedelta(hours=1)
    store = dist.TCPStore("127.0.0.1", port, WORLD, is_master=rank == 0, timeout=hour)
    if rank == 0:
        store.set("plan", json.dumps(plan([__file__, "/gone", __file__])))
    store.wait(["plan"], hour)


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.start_processes(work, (port,), nprocs=WORLD, start_method="fork")
