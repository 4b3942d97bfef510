"""A parent with a child and a grandchild, which do at a word what the first argument says."""

import os
import signal
import sys

from ready import say, wait_for_word


def wait_to_be_told(reading):
    os.read(reading, 1)


if __name__ == "__main__":
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            say(grandchild=os.getpid())
            signal.pause()
        wait_to_be_told(reading)
        if sys.argv[1] == "session":
            os.setsid()
            say(done=os.getpid())
        elif sys.argv[1] == "exec":
            say(done=os.getpid())
            os.execvp("sleep", ["sleep", "1000"])
        elif sys.argv[1] == "leave":
            os._exit(3)
        signal.pause()
    say(child=child)
    wait_for_word()
    os.write(writing, b"x")
    if sys.argv[1] == "leave":
        os.waitpid(child, 0)
        say(done=child)
    signal.pause()
