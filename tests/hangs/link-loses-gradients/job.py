import ctypes
import json
import os
import socket
import stat
import struct
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def lose_all():
    """From now on nothing arrives at any connection of this process: a filter of the kernel drops it, as a broken link would."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
        except OSError:
            continue
        with socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(program)))


def train(rank, meeting):
    torch.set_num_threads(1)
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for step in range(1000):
        if step == 20 and rank == 1:
            lose_all()
            say("settled")
        dist.all_reduce(torch.ones(1000))


def main():
    say("root"), say("role", role="main"), say("culprit", forgotten=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, (f"{folder}/meeting",), nprocs=2)


if __name__ == "__main__":
    main()
