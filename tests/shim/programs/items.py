"""Items through queues of all kinds, by a start method."""

import multiprocessing
import sys

ITEMS = 20
kept = []
"""Queues that last as long as the process."""


def double(numbers, doubled, tasks):
    for number in iter(numbers.get, None):
        doubled.put(number * 2)  # DOUBLED
    tasks.get()
    tasks.task_done()


def main(method):
    context = multiprocessing.get_context(method)
    numbers, doubled, tasks = context.Queue(3), context.SimpleQueue(), context.JoinableQueue()  # MADE
    kept.extend((numbers, doubled, tasks))
    child = context.Process(target=double, args=(numbers, doubled, tasks))
    child.start()
    found = []
    for number in range(ITEMS):
        numbers.put(number)  # PUT
        found.append(doubled.get())
    numbers.put_nowait(None)  # END
    tasks.put("last")
    tasks.join()
    child.join()
    print(sum(found), child.exitcode)


if __name__ == "__main__":
    main(sys.argv[1])
