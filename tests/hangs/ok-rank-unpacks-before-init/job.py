import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time
import zlib

import torch.distributed as dist

WORLD = 3


def train(rank):
    say("role", role=f"rank {rank}")
    if rank == 0:
        say("settled")
        shard = os.urandom(1 << 20)
        for _ in range(40):
            for _ in range(12):
                zlib.compress(shard)
            time.sleep(0.5)
            say("progress")
    method = "file://" + os.path.abspath("meeting")
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=WORLD)
    while True:
        dist.barrier()
        time.sleep(0.5)
        say("progress")


def main():
    say("root")
    say("role", role="launcher")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = [mp.get_context("fork").Process(target=train, args=(rank,)) for rank in range(WORLD)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
