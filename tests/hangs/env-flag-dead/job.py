import ctypes
import json
import multiprocessing as mp
import os
import resource

from vecenv import VecEnv


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def simulate(number, step):
    """One step of a physics engine in C."""
    if step == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        say("role", role=f"process sim-{number}")
    if number == 2 and step == 20:
        say("culprit", thread="MainThread", dead=True)
        say("settled")
        ctypes.string_at(0)


class Policy:
    """Learns nothing."""

    def __init__(self):
        self.seen = 0

    def learn(self, rollout):
        self.seen += len(rollout)


def rewards(env):
    """Of the last step of each."""
    return list(env.done)


def collect(env, steps):
    """A rollout."""
    rollout = []
    for _ in range(steps):







        env.step()
        rollout.append(rewards(env))
    return rollout


def main():
    say("root"), say("role", role="main")
    env, policy = VecEnv(mp.get_context("spawn"), 4, simulate), Policy()
    for _ in range(100):


        policy.learn(collect(env, 16))


if __name__ == "__main__":
    main()
