"""Run a program that may open only so many files: `few_files.py NUMBER PROGRAM ARGUMENTS`."""

import os
import resource
import sys

number, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(number), int(number)))
os.execv(sys.executable, [sys.executable, *command])
