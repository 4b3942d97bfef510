"""A child becomes another program; to close what it had open the kernel asks the file system: `execs.py PLACE`."""

import os
import sys

from lives import end_with_parent
from ready import say, wait_for_word

child = os.fork()
if child == 0:
    end_with_parent()
    kept = os.open(f"{sys.argv[1]}/small.txt", os.O_RDWR | os.O_CLOEXEC)
    say(child=os.getpid())
    wait_for_word()
    os.execv(sys.executable, [sys.executable, "-c", ""])
say(ready=os.getpid())
os.waitpid(child, 0)  # STUCK
