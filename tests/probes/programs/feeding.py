"""Two queues with a feeder thread each: one has sent its last item, the other could not pickle it."""

import contextlib
import multiprocessing as mp
import os
import sys


def main():
    sent, dropped = mp.Queue(), mp.Queue()
    for queue, item in ((sent, {"step": 2}), (dropped, lambda: 2)):
        queue.put(1)
        queue.put(item)
    print(sent._writer.fileno(), dropped._writer.fileno(), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        main()
