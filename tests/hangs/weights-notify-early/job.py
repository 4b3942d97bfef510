import json
import multiprocessing as mp
import os
import random
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class WeightBoard:
    """The learner writes weights, the actors take them when there are new ones."""

    def __init__(self, ctx, size):
        self.cond = ctx.Condition()
        self.version = ctx.Value("i", 0, lock=False)
        self.data = ctx.Array("f", size, lock=False)

    def publish(self, values):
        with self.cond:
            self.data[:] = values
            self.version.value += 1
            self.cond.notify_all()

    def fetch_next(self):
        with self.cond:
            self.cond.wait()  # CULPRIT
            return self.version.value, self.data[:]


def write_video(frames):
    with open("rollout.bin", "wb") as f:
        for x in frames:
            f.write(b"%f\n" % x)
    time.sleep(0.8)


def act(k, board, out):
    say("role", role=f"process actor-{k}")
    while True:
        version, w = board.fetch_next()
        reward = [random.random() * x for x in w]
        out.send((version, reward))
        if version == 20 and k == 1:
            write_video(reward)
            say("culprit", thread="MainThread")
        if version == 21 and k == 0:
            say("waiter")


def main():
    say("root")
    say("role", role="process learner")
    ctx = mp.get_context("fork")
    board = WeightBoard(ctx, 16)
    pipes = []
    for k in range(2):
        r, w = ctx.Pipe(duplex=False)
        ctx.Process(target=act, args=(k, board, w), daemon=True).start()
        w.close()
        pipes.append(r)
    time.sleep(0.5)
    weights = [1.0] * 16
    while True:
        board.publish(weights)
        if board.version.value == 21:
            time.sleep(1.5)
            say("culprit", thread="MainThread")
            say("settled")
        for r in pipes:
            _, reward = r.recv()  # CULPRIT
            weights = [w + 0.01 * x for w, x in zip(weights, reward)]
        time.sleep(0.05)


if __name__ == "__main__":
    main()
