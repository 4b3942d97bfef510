import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(folder):
    while True:
        try:
            folder.mkdir()
            break
        except FileExistsError:
            time.sleep(0.2)  # CULPRIT
    try:
        yield
    finally:
        folder.rmdir()


def compact():
    say("role", role="subprocess compact")
    say("culprit", thread="MainThread")
    say("settled")
    with claimed(Path("catalogue.lock")):
        print("compacted")


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    with claimed(Path("catalogue.lock")):
        Path("catalogue").write_text("x\n")
        subprocess.run([sys.executable, __file__, "compact"], check=True)  # CULPRIT


if __name__ == "__main__":
    compact() if sys.argv[1:] == ["compact"] else main()
