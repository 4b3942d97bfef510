"""Hangs in a lock, and has all it has on a file system that somebody else serves: `there.py PLACE`.

Its interpreter, its program and the module that a thread stands in lie there too, and a variable leads there.
"""

import fcntl
import multiprocessing
import os
import threading

from idle import with_item
from lives import end_with_parent
from ready import say


def work(place):
    import select

    os.chdir(place)
    files = [os.open(f"{place}/{name}", os.O_RDONLY) for name in ("data.bin", "small.txt", "run")]
    fcntl.flock(files[1], fcntl.LOCK_EX)
    items = with_item(place, 0)
    silent, _ = os.pipe()
    lock, taken = threading.Lock(), threading.Event()

    def hold(items):
        with lock:
            taken.set()
            select.select([silent], [], [])

    threading.Thread(target=hold, args=(items,), daemon=True).start()
    threading.Thread(target=multiprocessing.Semaphore(0).acquire, daemon=True).start()
    taken.wait()
    say(ready=True)
    with lock:
        pass


if __name__ == "__main__":
    import sys

    end_with_parent()
    work(sys.argv[1])
