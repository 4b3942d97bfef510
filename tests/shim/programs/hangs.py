"""Waits for an item that never comes, until it is told to end by a signal or a word."""

import multiprocessing
import os
import signal
import sys
import threading
import time

from common import say


def sleep():
    time.sleep(1000)  # STUCK


def end_when_told():
    if sys.stdin.readline():
        os.kill(os.getpid(), signal.SIGTERM)


def main():
    print("out", flush=True)
    print("err", file=sys.stderr, flush=True)
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=sleep, daemon=True)
    child.start()
    say(child=child.pid, parent=os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: (child.kill(), sys.exit(5)))
    threading.Thread(target=end_when_told, daemon=True).start()
    queue.get()


if __name__ == "__main__":
    main()
