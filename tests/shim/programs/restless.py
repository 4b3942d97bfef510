"""Items and new queues for ever, as fast as they go."""

import multiprocessing
import os

from common import say


def consume(numbers):
    numbers.get()
    say(child=os.getpid())
    while True:
        numbers.get()


def main():
    numbers = multiprocessing.Queue(100)
    multiprocessing.Process(target=consume, args=(numbers,), daemon=True).start()
    while True:
        numbers.put(os.getpid())
        multiprocessing.SimpleQueue().put("short-lived")


if __name__ == "__main__":
    main()
