"""Makes a part, or indexes those that are done."""

import json
import os
import sys
import time


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def make(seconds):
    if seconds == "20":
        say("settled")
    time.sleep(int(seconds))
    print("made")


def index():
    say("root", pid=os.getppid())
    for name in sys.stdin:
        print("indexed", name.strip())


if __name__ == "__main__":
    index() if sys.argv[1] == "index" else make(sys.argv[2])
