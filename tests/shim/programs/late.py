"""The shim comes when the feeder of a queue is at work already."""

import multiprocessing

from common import say, wait_for_word


def main():
    queue = multiprocessing.Queue()
    queue.put("early")
    queue.get()
    import mpmon.shim

    say(on=mpmon.shim.install(), again=mpmon.shim.install())
    queue.put("late")  # LATE
    queue.get()
    say(got=2)
    wait_for_word()


if __name__ == "__main__":
    main()
