import json
import os
import subprocess
import sys
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def convert():
    say("role", role="subprocess job.py")
    say("settled")
    for _ in range(100):
        os.write(1, b"frame of a film\n" * 4096)


def main():
    say("root")
    say("role", role="main")
    say("culprit")
    child = subprocess.Popen([sys.executable, "job.py", "convert"], stdout=subprocess.PIPE)
    while child.poll() is None:
        print("still converting", flush=True)
        time.sleep(1)  # CULPRIT
    print(len(child.stdout.read()))


convert() if sys.argv[1:] else main()
