import json
import math
import multiprocessing as mp
import os
import random


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

class Cartpole:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.reset()

    def reset(self):
        self.x, self.v, self.t = 0.0, 0.0, 0
        return self.x, self.v

    def step(self, force):
        self.v += force * 0.1 + self.random.gauss(0, 0.01)
        self.x += self.v
        self.t += 1
        return (self.x, self.v), math.cos(self.x), self.t >= 50


class MujocoError(RuntimeError):
    pass


def contact_solver(seed, t):
    if seed == 2 and t == 37:
        raise MujocoError("Nan, Inf or huge value in QACC")


def env_main(seed, conn):
    say("role", role=f"process env-{seed}")
    env = Cartpole(seed)
    say("culprit" if seed == 2 else "waiter", **({"thread": "MainThread"} if seed == 2 else {}))
    settle(5)
    while True:
        cmd, arg = conn.recv()  # CULPRIT
        try:
            if cmd == "step":
                contact_solver(seed, env.t)
                obs, reward, done = env.step(arg)
                if done:
                    obs = env.reset()
                conn.send((obs, reward, done))
            elif cmd == "reset":
                conn.send(env.reset())
            elif cmd == "close":
                return
        except MujocoError as e:
            print(f"env {seed}: {e}, rebuilding", flush=True)
            env = Cartpole(seed)
            continue


class VecEnv:
    def __init__(self, n):
        ctx = mp.get_context("fork")
        self.conns = []
        for seed in range(n):
            ours, theirs = ctx.Pipe()
            ctx.Process(target=env_main, args=(seed, theirs), daemon=True).start()
            theirs.close()
            self.conns.append(ours)

    def ask(self, cmd, args):
        for conn, arg in zip(self.conns, args):
            conn.send((cmd, arg))
        return [conn.recv() for conn in self.conns]  # CULPRIT


def policy(obs):
    return [-0.3 * x - 0.1 * v for x, v in obs]


def main():
    say("root")
    say("role", role="main")
    envs = VecEnv(4)
    obs = envs.ask("reset", [None] * 4)
    returns = [0.0] * 4
    say("culprit", thread="MainThread")
    settle(5)
    for update in range(100000):
        out = envs.ask("step", policy(obs))
        obs = [o for o, _, _ in out]
        returns = [a + r for a, (_, r, _) in zip(returns, out)]
        if update % 1000 == 0:
            print(update, returns, flush=True)


if __name__ == "__main__":
    main()
