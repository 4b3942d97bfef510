"""Two ranks under torchrun, each with a worker behind a queue."""

import multiprocessing

import torch
import torch.distributed


def work(rank, numbers):
    numbers.put(rank + 1)  # PUT


def main():
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    context = multiprocessing.get_context("fork")
    numbers = context.Queue()
    child = context.Process(target=work, args=(rank, numbers))
    child.start()
    total = torch.tensor([float(numbers.get())])
    child.join()
    torch.distributed.all_reduce(total)
    if rank == 0:
        print("total", total.item())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
