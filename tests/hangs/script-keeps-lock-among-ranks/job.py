import json
import os
import socket
import subprocess
import tempfile
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 3


def say(event, pid=None, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def uploader(conn, store):
    say("role", role="process uploader")
    while True:
        step, path = conn.recv()
        if step >= 20:
            say("waiter")
        target = os.path.join(store, f"step{step}.pt")
        subprocess.run(["flock", os.path.join(store, ".lock"), "cp", path, target], check=True)
        conn.send(target)


def save(model, step, store, conn):
    path = os.path.join(store, "last.pt")
    torch.save(model.state_dict(), path)
    conn.send((step, path))
    return conn.recv()


def train(rank, port, store, conn):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD,
                            timeout=timedelta(hours=2))
    model = torch.nn.Linear(16, 4)
    for step in range(1, 2000):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.zero_()
        if step % 20 == 0:
            say("waiter")
            if rank == 0:
                say("settled")
                save(model, step, store, conn)
            dist.barrier()


def main():
    say("root")
    say("role", role="launcher")
    say("waiter")
    store = tempfile.mkdtemp()
    shipper = subprocess.Popen(["sh", "ship.sh", store], stdin=subprocess.PIPE, text=True)
    say("role", shipper.pid, role="process shipper")
    say("culprit", shipper.pid, thread="MainThread")
    shipper.stdin.write("start.log\n")
    shipper.stdin.flush()
    ctx = mp.get_context("fork")
    here, there = ctx.Pipe()
    helper = ctx.Process(target=uploader, args=(there, store))
    helper.start()
    port = free_port()
    ranks = [ctx.Process(target=train, args=(r, port, store, here)) for r in range(WORLD)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    shipper.stdin.write("end.log\n")
    shipper.stdin.close()


if __name__ == "__main__":
    main()
