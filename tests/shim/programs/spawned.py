"""torch.multiprocessing.spawn, with a tensor back from each process."""

import torch
import torch.multiprocessing


def work(rank, results, done):
    results.put((rank, torch.full((3,), float(rank))))
    done.get()


def main():
    context = torch.multiprocessing.get_context("spawn")
    results, done = context.Queue(), context.SimpleQueue()
    spawned = torch.multiprocessing.spawn(work, (results, done), nprocs=2, join=False)
    print(sorted((rank, tensor.tolist()) for rank, tensor in (results.get() for _ in range(2))))
    for _ in range(2):
        done.put(None)
    while not spawned.join():
        pass


if __name__ == "__main__":
    main()
