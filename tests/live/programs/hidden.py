"""A job that cannot be read: all its processes have cleared their dumpable flag (prctl(2)), and belong to the user whose
number is given. Its child is stopped, or is killed and not collected."""

import ctypes
import json
import os
import signal
import sys

PR_SET_DUMPABLE = 4


if __name__ == "__main__":
    # Another user may not open the pipe any more.
    ready = os.open(os.environ["READY"], os.O_WRONLY)
    how, user = sys.argv[1], int(sys.argv[2])
    if user != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    number = {"stopped": signal.SIGSTOP, "killed": signal.SIGKILL}[how]
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), number)
    os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    os.write(ready, json.dumps({"child": child}).encode() + b"\n")
    signal.pause()
