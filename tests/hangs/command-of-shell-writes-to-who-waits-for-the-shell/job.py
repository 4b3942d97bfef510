"""A command of a shell writes more than a pipe holds; who started the shell waits for it and reads nothing."""

import json
import os
import subprocess


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def count():
    shell = subprocess.Popen(["sh", "-c", "echo rows; seq 200000; exit 0"], stdout=subprocess.PIPE)
    shell.stdout.readline()
    say("culprit")
    say("settled")
    return shell.wait()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    print(count())


if __name__ == "__main__":
    main()
