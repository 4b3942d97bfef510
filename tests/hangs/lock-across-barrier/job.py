import json
import multiprocessing as mp
import os
import socket
import threading
import time
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

WORLD = 3


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

class State:
    def __init__(self):
        self.lock, self.step, self.weight = threading.Lock(), 0, torch.zeros(32)


def status_server(state, sock):
    while True:
        conn, _ = sock.accept()
        with conn, state.lock:  # CULPRIT
            conn.sendall(json.dumps({"step": state.step, "folder": f"step-{state.step}"}).encode())


def ask_status(port):
    with socket.create_connection(("127.0.0.1", port)) as s:
        return json.loads(s.recv(4096))  # CULPRIT


def write(state, rank):
    torch.save(state.weight, f"shard-{rank}.pt")
    time.sleep(0.1 + 0.4 * (rank == 1))


def checkpoint(state, rank, status_port):
    if rank == 0:
        with state.lock:
            write(state, rank)
            dist.barrier()  # CULPRIT
    else:
        write(state, rank)
        if rank == 1:
            os.makedirs(ask_status(status_port)["folder"], exist_ok=True)
        dist.barrier()


def train(rank, port, status_port, sock):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD,
                            timeout=timedelta(hours=1))
    state = State()
    if rank == 0:
        threading.Thread(target=status_server, args=(state, sock), name="status", daemon=True).start()
        say("culprit", thread="status")
    if rank == 2:
        say("waiter")
    else:
        say("culprit", thread="MainThread")
    settle(WORLD + 1)
    for step in range(1, 1000):
        dist.all_reduce(state.weight)
        state.step = step
        if step % 50 == 0:
            checkpoint(state, rank, status_port)


def main():
    say("root")
    say("role", role="main")
    sock = socket.create_server(("127.0.0.1", 0))
    ctx, port = mp.get_context("fork"), free_port()
    ranks = [ctx.Process(target=train, args=(r, port, sock.getsockname()[1], sock)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    sock.close()
    say("waiter")
    settle(WORLD + 1)
    for p in ranks:
        p.join()


if __name__ == "__main__":
    main()
