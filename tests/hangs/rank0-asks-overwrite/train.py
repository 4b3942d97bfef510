import json, os
from datetime import timedelta
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to say where it ends up also says that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

def output_folder(path):
    path = Path(path)
    if path.exists() and any(path.iterdir()):
        say("culprit", thread="MainThread")
        settle(3)
        answer = input(f"{path} is not empty. Overwrite? [y/N] ")  # CULPRIT
        if answer.lower() != "y":
            raise SystemExit("stopped by the user")
    path.mkdir(exist_ok=True)
    return path


def main():
    rank = int(os.environ["RANK"])
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    if rank == 0:
        output_folder("out")
    else:
        say("waiter")
        settle(3)
    dist.barrier()
    x = torch.ones(3)
    for _ in range(1000):
        dist.all_reduce(x)


if __name__ == "__main__":
    main()
