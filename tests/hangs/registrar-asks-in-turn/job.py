import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp

import torch.distributed as dist

ROUNDS = [9, 9, 6]


def registrar(ends):
    say("role", role="process registrar")
    say("culprit", thread="MainThread")
    while True:
        for end in ends:
            end.send(end.recv() + 1)  # CULPRIT


def client(number, end):
    say("role", role=f"rank {number}")
    dist.init_process_group("gloo", init_method=f"file://{os.path.abspath('store')}", rank=number, world_size=3)
    if number == 2:
        say("culprit", thread="MainThread")
    for turn in range(ROUNDS[number]):
        end.send(turn)
        end.recv()
    if number == 2:
        say("settled")
    dist.barrier()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    pairs = [mp.Pipe() for _ in ROUNDS]
    mp.Process(target=registrar, args=([there for _, there in pairs],), daemon=True).start()
    clients = [mp.Process(target=client, args=(number, here)) for number, (here, _) in enumerate(pairs)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


if __name__ == "__main__":
    main()
