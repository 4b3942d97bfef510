"""What a tensor is pickled to: opcodes and names, without the numbers that differ from run to run."""

import pickletools
import sys

import torch
import torch.multiprocessing
from torch.multiprocessing import queue as torch_queue


def main(strategy):
    torch.multiprocessing.set_sharing_strategy(strategy)
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    received = queue._reader.recv_bytes
    pickled = []

    def keep():
        pickled.append(received())
        return pickled[-1]

    queue._reader.recv_bytes = keep
    queue.put({"tensor": torch.arange(6).reshape(2, 3)})
    print(queue.get()["tensor"].tolist(), torch_queue.Queue.__mro__[1].__name__)
    for opcode, argument, _ in pickletools.genops(pickled[0]):
        is_name = isinstance(argument, str) and argument.replace("_", "").replace(".", "").isalpha()
        print(opcode.name, argument if is_name else "")


if __name__ == "__main__":
    main(sys.argv[1])
