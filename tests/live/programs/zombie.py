"""A child has ended, and nobody collects it."""

import os
import signal

from ready import say

if __name__ == "__main__":
    child = os.fork()
    if child == 0:
        os._exit(5)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    say(child=child)
    signal.pause()
