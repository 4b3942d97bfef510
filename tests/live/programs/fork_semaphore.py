"""The child of a fork waits in C code for a semaphore that nobody posts: it looks as if it waited for a lock."""

import ctypes
import multiprocessing

from ready import say

LIBRARY = ctypes.CDLL(None)
SEMAPHORE = ctypes.create_string_buffer(64)


def work():
    say(child=multiprocessing.current_process().pid)
    LIBRARY.sem_wait(SEMAPHORE)  # STUCK


if __name__ == "__main__":
    LIBRARY.sem_init(SEMAPHORE, 0, 0)
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
