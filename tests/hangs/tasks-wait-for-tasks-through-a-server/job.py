"""Every worker is in a task that waits for its parts, which only the workers could do; tasks and results go through a redis
server of the job.
"""

import json
import os
import socket
import subprocess
import sys
import time

from billiard import current_process
from celery import Celery, group


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


PORT = os.environ.setdefault("REDIS_PORT", str(free_port()))
ADDRESS = f"redis://127.0.0.1:{PORT}/0"
app = Celery("job", broker=ADDRESS, backend=ADDRESS)
app.conf.update(worker_prefetch_multiplier=1, task_acks_late=True, broker_connection_retry_on_startup=True)


@app.task(name="fetch")
def fetch(page):
    time.sleep(0.05)
    return [page * 10 + row for row in range(10)]


@app.task(name="total")
def total(pages):
    parts = group(fetch.s(page) for page in pages).apply_async()
    say("role", role=f"pool worker {current_process().index}")
    say("culprit", all=True)
    return sum(map(sum, parts.get(disable_sync_subtasks=False)))  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    server = subprocess.Popen(
        ["redis-server", "--port", PORT, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    worker = [sys.executable, "-m", "celery", "-A", "job", "worker", "-c", "2", "-l", "WARNING"]
    workers = subprocess.Popen([*worker, "--without-gossip", "--without-mingle"])
    print(sum(fetch.delay(1).get()))
    sums = [total.delay([first, first + 1, first + 2]) for first in range(4)]
    time.sleep(2)
    say("settled")
    print([one.get() for one in sums])
    workers.terminate()
    server.terminate()


if __name__ == "__main__":
    main()
