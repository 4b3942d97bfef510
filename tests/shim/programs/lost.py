"""Objects that cannot be pickled: put returns, nobody gets them."""

import multiprocessing
import threading

queue = multiprocessing.Queue()


def main():
    for item in (1, threading.Lock(), 2, threading.Lock(), 3):
        queue.put(item)
    print([queue.get() for _ in range(3)])


if __name__ == "__main__":
    main()
