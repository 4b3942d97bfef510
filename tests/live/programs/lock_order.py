"""Two children take two locks in opposite order."""

import multiprocessing
import sys

from ready import say


def take_left_first(left, right, both):
    with left:
        both.wait()
        say(left=multiprocessing.current_process().pid)
        with right:  # STUCK left
            pass


def take_right_first(left, right, both):
    with right:
        both.wait()
        say(right=multiprocessing.current_process().pid)
        with left:  # STUCK right
            pass


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    shared = context.Lock(), context.Lock(), context.Barrier(2)
    children = [context.Process(target=take, args=shared) for take in (take_left_first, take_right_first)]
    for child in children:
        child.start()
    for child in children:
        child.join()
