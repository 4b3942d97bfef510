"""Run a program in a container of its own, and speak for it: `two_rooms.py OWN_SHM PROGRAM ARGUMENTS`."""

import subprocess
import sys

own_shm, *command = sys.argv[1:]
subprocess.run([sys.executable, own_shm, "64m", "pids", *command], check=True)
