"""Three gloo ranks with a debug server each, of which one takes another turn than the others."""

import os
import subprocess
import sys
import tempfile
import time

RANKS = 3


def main(what):
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        environments = [{**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS)} for rank in range(RANKS)]
        ranks = [subprocess.Popen([sys.executable, __file__, what, store], env=each) for each in environments]
        for each in ranks:
            each.wait()


def work(what, store):
    import torch
    import torch.distributed as dist
    from ready import say
    from torch._C._distributed_c10d import _WorkerServer

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    # What `torch.distributed.debug.start_debug_server` starts in each rank.
    server = _WorkerServer("127.0.0.1", 0)
    halves = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    numbers = torch.ones(3)
    for _ in range(6):
        dist.all_reduce(numbers)
    say(**{f"rank{rank}": os.getpid(), f"port{rank}": server.port})
    if what == "behind" and rank == 1:
        time.sleep(1000)  # STUCK
    elif what == "clash" and rank == 1:
        dist.broadcast(numbers, 1)  # STUCK
        dist.barrier()
    elif what == "groups" and rank < 2:
        dist.all_reduce(numbers, group=halves[rank])  # STUCK
    dist.all_reduce(numbers)


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(*sys.argv[1:3])
    else:
        main(sys.argv[1])
