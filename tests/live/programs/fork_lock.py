"""A thread holds a lock at the moment of the fork, so the child waits for it for ever."""

import multiprocessing
import threading

from ready import say

LOCK = threading.Lock()


def hold(held):
    with LOCK:
        held.set()
        threading.Event().wait()


def work():
    say(child=multiprocessing.current_process().pid)
    with LOCK:  # STUCK
        pass


if __name__ == "__main__":
    held = threading.Event()
    threading.Thread(target=hold, args=(held,), daemon=True).start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
