"""Reads numbers from its standard input, and for each has a thread stand so many calls deep, outside of which it has a lock."""

import sys
import threading
import time


def deeper(depth, entered):
    if depth:
        return deeper(depth - 1, entered)
    entered.set()
    time.sleep(100_000)
    return None


def recursing(depth, entered):
    held = threading.Lock()
    with held:
        deeper(depth, entered)


sys.setrecursionlimit(1_000_000)
threading.stack_size(1 << 30)
print("ready", flush=True)
for line in sys.stdin:
    entered = threading.Event()
    threading.Thread(target=recursing, args=(int(line), entered), daemon=True).start()
    entered.wait()
    print(line.strip(), flush=True)
