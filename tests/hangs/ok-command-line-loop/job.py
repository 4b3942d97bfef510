"""A program waits for another that is wholly on its command line and fetches part after part."""

import json
import os
import subprocess
import sys


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


FETCH = """
import time
parts = []
for part in range(40):
    parts.append(part)
    time.sleep(2)
"""

say("root")
say("role", role="main")
say("settled")
subprocess.run([sys.executable, "-c", FETCH], check=True)
