import json
import logging
import os
import random
import subprocess
import sys


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Worker:
    """A subprocess that takes tasks as JSON lines on stdin and answers on stdout."""

    def __init__(self, k):
        self.k = k
        self.p = subprocess.Popen([sys.executable, "worker.py", str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)

    def ask(self, **task):
        self.p.stdin.write(json.dumps(task) + "\n")
        self.p.stdin.flush()

    def answer(self):
        return json.loads(self.p.stdout.readline())


def main():
    logging.basicConfig(level=logging.INFO)
    say("root")
    say("role", role="main")
    say("waiter")
    for i in range(12):
        with open(f"runs-{i % 5}-{i}.txt", "w") as f:
            f.writelines(f"{random.randrange(10**6)}\n" for _ in range(500))
    workers = [Worker(k) for k in range(2)]
    for bucket in range(0, 8, 2):
        for w in workers:
            w.ask(bucket=bucket + w.k)
        for w in workers:
            logging.info("bucket %s: %s", bucket, w.answer())


if __name__ == "__main__":
    main()
