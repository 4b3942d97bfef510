import multiprocessing as mp
import os
import threading
import time
from multiprocessing.managers import BaseManager

from events import placed, say

ACTORS = 4


class Registry:
    """who is there, and with which address"""

    def __init__(self, expected):
        self.expected, self.members = expected, {}
        self.changed = threading.Condition()

    def register(self, name, address):
        with self.changed:
            self.members[name] = address
            self.changed.notify_all()

    def wait_ready(self):
        with self.changed:
            self.changed.wait_for(lambda: len(self.members) >= self.expected)
            return dict(self.members)


class Directory(BaseManager):
    pass


Directory.register("Registry", Registry)

CONFIG = {
    0: {"env": "cartpole", "envs": "8"},
    1: {"env": "cartpole", "envs": "8"},
    2: {"env": "pendulum", "envs": "8 # was 16"},
    3: {"env": "pendulum", "envs": "16"},
}


class Actor:
    def __init__(self, k):
        self.k, self.config = k, CONFIG[k]
        self.envs = [0.0] * int(self.config["envs"])

    def step(self):
        self.envs = [0.9 * e + 0.1 * i for i, e in enumerate(self.envs)]
        time.sleep(0.1)


def actor_main(k, registry):
    say("role", role=f"process actor-{k}")
    if k == 2:
        say("culprit", thread="MainThread", dead=True)
    time.sleep(0.3)
    actor = Actor(k)
    registry.register(f"actor-{k}", f"10.0.0.{k}:{7000 + k}")
    say("waiter")
    placed(ACTORS + 2)
    peers = registry.wait_ready()
    print(k, "sees", sorted(peers), flush=True)
    while True:
        actor.step()
        say("progress")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    with Directory() as directory:
        say("role", pid=directory._process.pid, role="process directory")
        say("waiter", pid=directory._process.pid)
        registry = directory.Registry(ACTORS)
        ps = [mp.Process(target=actor_main, args=(k, registry), name=f"actor-{k}") for k in range(ACTORS)]
        for p in ps:
            p.start()
        for p in ps:
            p.join()


if __name__ == "__main__":
    main()
