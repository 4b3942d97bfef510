"""An actor that runs one call at a time waits in a call for an event that only another of its calls would set."""

import json
import os
import threading
import time

import ray


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@ray.remote(num_cpus=0)
class Gate:
    def __init__(self):
        self.opened = threading.Event()

    def open(self):
        self.opened.set()

    def wait(self):
        say("role", role="subprocess ray::Gate.wait")
        say("culprit")
        say("settled")
        self.opened.wait()  # CULPRIT


@ray.remote(num_cpus=0.5)
def train(gate):
    ray.get(gate.wait.remote())


@ray.remote(num_cpus=0.5)
def prepare(gate):
    time.sleep(1)
    ray.get(gate.open.remote())


def main():
    say("root")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
    gate = Gate.remote()
    ray.get([train.remote(gate), prepare.remote(gate)])


if __name__ == "__main__":
    main()
