"""As many queues as the caller wants, all in use."""

import multiprocessing
import sys

queues = [multiprocessing.SimpleQueue() for _ in range(int(sys.argv[1]))]


def main():
    for number, queue in enumerate(queues):
        queue.put(number)
    print(sum(queue.get() for queue in queues))


if __name__ == "__main__":
    main()
