import json, os, socket, tempfile
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import corpus

WORLD, SHARDS = 3, 500

def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def train(rank, folder):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=8))
    marker = os.path.join(folder, "done")
    if rank == 0:
        say("settled")
        for k in range(SHARDS):
            corpus.tokenize(f"shard{k}", folder, lambda s: say("progress"))
        open(marker, "w").close()
    else:
        corpus.wait_for(marker)
    dist.barrier()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    mp.start_processes(train, args=(tempfile.mkdtemp(),), nprocs=WORLD, start_method="fork")
