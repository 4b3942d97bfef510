import datetime
import json
import os
import sys

import torch.distributed as dist


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


FILES = ["a", "b", "c"]


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    say("role", role=f"rank {rank}")
    if rank == 0:
        say("root", os.getppid())
    limit = datetime.timedelta(days=1)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=False, timeout=limit)
    store = dist.PrefixStore("files", store)
    own = [] if rank == 1 else FILES[rank::world]
    if not own:
        say("culprit", dead=True)
        say("settled")
        sys.exit(0)
    store.set(str(rank), json.dumps(own))
    print([json.loads(store.get(str(other))) for other in range(world)])


main()
