"""A child is stopped, and its parent waits for it."""

import multiprocessing
import os
import signal

from ready import say


def halt():
    os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=halt)
    child.start()
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    say(child=child.pid)
    child.join()
