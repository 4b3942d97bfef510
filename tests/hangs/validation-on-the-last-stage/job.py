import torch.multiprocessing as mp
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
import json
import os


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


SIZE, BATCH, MICRO = 32, 16, 4


def validate(schedule, targets):
    losses = []
    say("culprit", thread="MainThread")
    say("settled")
    schedule.step(target=targets, losses=losses)  # CULPRIT
    return torch.stack(losses).mean().item()


def train(rank, world, store):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    last = rank == world - 1
    layers = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.GELU(), torch.nn.Linear(SIZE, SIZE))
    stage = PipelineStage(layers, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=MICRO, loss_fn=torch.nn.MSELoss())
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
    for epoch in range(3):
        for step in range(5):
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(torch.randn(BATCH, SIZE))
            else:
                schedule.step(target=torch.zeros(BATCH, SIZE), losses=[])
            optimizer.step()
        if last:
            print("loss", validate(schedule, torch.zeros(BATCH, SIZE)))
        if rank == 0:
            say("waiter")
        dist.barrier()
    dist.destroy_process_group()


def main():
    say("root")
    say("role", role="main")
    mp.spawn(train, args=(2, os.path.abspath("store")), nprocs=2)


if __name__ == "__main__":
    main()
