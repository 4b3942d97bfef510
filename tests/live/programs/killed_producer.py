"""A consumer waits for a producer, which is killed: by a signal, or for memory in the control group whose folder is given."""

import multiprocessing
import os
import sys

from ready import say, wait_for_word

TOO_MUCH = 1 << 28


def produce(items, begin, how):
    if how.startswith("/"):
        with open(f"{how}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    say(child=os.getpid())
    begin.wait()
    if how.startswith("/"):
        items.put(len(bytearray(TOO_MUCH)))
    os.kill(os.getpid(), int(how))


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    items, begin = context.Queue(), context.Event()
    producer = context.Process(target=produce, args=(items, begin, sys.argv[1]))
    producer.start()
    wait_for_word()
    begin.set()
    items.get()
