import json
import multiprocessing as mp
import os
import random

ACTORS = 3


def say(event, pid=None, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class Env:
    """A walk on a line; an episode ends at either side."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.goal = 12

    def reset(self):
        self.pos, self.steps = 0, 0
        return self.pos

    def step(self, action):
        self.pos += action
        self.steps += 1
        info = {"steps": self.steps}
        done = abs(self.pos) >= self.goal
        if done:
            info["trace"] = (x for x in range(self.pos))
        return self.pos, float(self.pos == self.goal), done, info


def rollout(env, weights, length=20):
    out, obs = [], env.pos
    for _ in range(length):
        action = 1 if env.rng.random() < weights["right"] else -1
        obs, reward, done, info = env.step(action)
        out.append((obs, reward, info))
        if done:
            break
    return out


def actor(k, replay, weights_q):
    say("role", role=f"process actor {k}")
    env = Env(k)
    env.reset()
    weights = weights_q.get()
    while True:
        batch = rollout(env, weights)
        ended = "trace" in batch[-1][2]
        if ended:
            say("culprit", thread="MainThread")
            say("settled")
        replay.put((k, batch))
        weights = weights_q.get()  # CULPRIT
        if ended:
            env.reset()


def learner(replay, outs):
    say("role", role="process learner")
    say("waiter")
    weights = {"right": 0.5}
    version = 0
    while True:
        for q in outs:
            q.put({**weights, "version": version})
        got = [replay.get() for _ in outs]
        reward = sum(r for _, batch in got for _, r, _ in batch)
        weights["right"] = min(0.9, weights["right"] + 0.01 * reward)
        version += 1


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    replay = ctx.Queue()
    outs = [ctx.Queue() for _ in range(ACTORS)]
    jobs = [ctx.Process(target=actor, args=(k, replay, outs[k])) for k in range(ACTORS)]
    jobs.append(ctx.Process(target=learner, args=(replay, outs)))
    for p in jobs:
        p.start()
    for p in jobs:
        p.join()


if __name__ == "__main__":
    main()
