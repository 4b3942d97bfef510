"""Main clones a repository from afar: git waits for a helper of its own, one thread of which passes on what comes, after a while."""

import json
import os
import subprocess
import sys
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def git(*words):
    subprocess.run(["git", "-c", "protocol.ext.allow=always", *words], check=True)


def answer_from_afar(service, repository):
    """Stand in for a server that thinks before it answers."""
    say("role", role="subprocess job.py")
    say("settled")
    time.sleep(30)
    subprocess.run([service, repository], check=True)


def main():
    say("root")
    say("role", role="main")
    git("init", "-q", "origin")
    git("clone", "-q", f"ext::{sys.executable} job.py %S origin", "copy")


if __name__ == "__main__":
    answer_from_afar(*sys.argv[1:]) if sys.argv[1:] else main()
