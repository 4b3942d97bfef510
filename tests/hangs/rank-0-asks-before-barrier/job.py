"""Three ranks train; before it replaces a checkpoint, rank 0 asks at its terminal, and the others wait at a barrier."""
import json
import os
import pty
import subprocess
import sys

import torch
import torch.distributed as dist


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def save():
    truth("culprit")
    truth("settled")
    if input("Replace the checkpoint? ") == "yes":  # CULPRIT
        open("checkpoint.pt", "w").close()


def train():
    rank = int(os.environ["RANK"])
    truth("role", role=f"rank {rank}")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    total = torch.zeros(1)
    for step in range(1000):
        dist.all_reduce(total)
        if step == 20:
            if rank == 0:
                save()
            dist.barrier()


def main():
    truth("root")
    truth("role", role="main")
    nobody, terminal = pty.openpty()
    ranks = []
    for rank in range(3):
        environment = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29817",
        }
        ranks.append(subprocess.Popen([sys.executable, __file__], env=environment, stdin=terminal))
    for process in ranks:
        process.wait()
    os.close(nobody)


if __name__ == "__main__":
    train() if "RANK" in os.environ else main()
