"""A worker reads for its parent from a file system that has stopped answering: `loads.py PLACE WITH`."""

import multiprocessing
import os
import sys

from lives import end_with_parent
from ready import say, wait_for_word

PAGE = 4096
FAR = 8 << 20


def read(file):
    return len(os.pread(file, PAGE, FAR))  # STUCK


def work(place, tasks, results):
    end_with_parent()
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    say(child=os.getpid())
    tasks.get()
    results.put(read(file))


def queue(place):
    context = multiprocessing.get_context("fork")
    tasks, results = context.SimpleQueue(), context.Queue()
    context.Process(target=work, args=(place, tasks, results), daemon=True).start()
    say(ready=True)
    wait_for_word()
    tasks.put(1)
    results.get()


def torch(place):
    from torch.utils.data import DataLoader, Dataset

    gate, go = os.pipe()

    class Photos(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            if index == 1:
                file = os.open(f"{place}/data.bin", os.O_RDONLY)
                say(child=os.getpid())
                os.read(gate, 1)
                return read(file)
            return index

    # The second item is asked for when the first one is taken.
    items = iter(DataLoader(Photos(), batch_size=1, num_workers=1, prefetch_factor=1))
    next(items)
    say(ready=True)
    wait_for_word()
    os.write(go, b"!")
    next(items)


if __name__ == "__main__":
    end_with_parent()
    globals()[sys.argv[2]](sys.argv[1])
