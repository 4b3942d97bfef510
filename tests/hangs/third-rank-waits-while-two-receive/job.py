"""Two ranks receive, each from the next one; the third waits for an event that main sets after the first has ended."""

import json
import multiprocessing
import os
import tempfile

import torch
import torch.distributed


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def run(rank, place, event):
    say("role", role=f"rank {rank}")
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=3)
    row = torch.ones(1)
    torch.distributed.all_reduce(row)
    if rank < 2:
        say("waiter")
        torch.distributed.recv(row, src=rank + 1)
    else:
        say("culprit")
        say("settled")
        event.wait()  # CULPRIT
    torch.distributed.send(row, dst=rank - 1)


def main():
    say("root")
    say("role", role="main")
    event, place = multiprocessing.Event(), os.path.join(tempfile.mkdtemp(), "meet")
    ranks = [multiprocessing.Process(target=run, args=(rank, place, event)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    ranks[0].join()
    event.set()


if __name__ == "__main__":
    main()
