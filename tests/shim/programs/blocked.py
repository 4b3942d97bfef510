"""A producer that waits for room and a consumer that waits for items; then the job does as it is told."""

import ctypes
import multiprocessing
import os
import signal
import threading

from common import say, wait_for_word


def produce(full):
    say(child=os.getpid())
    while True:
        full.put(0)  # FULL


def take(empty):
    empty.get()  # EMPTY


def hold_gil():
    """PyDLL calls a function of C without giving the GIL back."""
    ctypes.PyDLL(None).pause()


def main():
    full, empty = multiprocessing.Queue(2), multiprocessing.SimpleQueue()
    child = multiprocessing.Process(target=produce, args=(full,), daemon=True)
    child.start()
    threading.Thread(target=take, args=(empty,), daemon=True).start()
    while not full.full():
        pass
    say(child=child.pid)
    if wait_for_word() == "hold":
        hold_gil()
    signal.pause()


if __name__ == "__main__":
    main()
