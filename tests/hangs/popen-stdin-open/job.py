import json
import os
import subprocess


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def main():
    sort = subprocess.Popen(["sort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    say("role", role="process sort", pid=sort.pid)
    sort.stdin.write(b"b\na\n")
    sort.stdin.flush()
    # sort(1) answers after the end of its input, and its input was not closed.
    say("culprit", thread="MainThread")
    say("settled")

    print(sort.stdout.read())  # CULPRIT


say("root"), say("role", role="main"), main()
