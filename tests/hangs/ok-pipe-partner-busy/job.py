import hashlib
import json
import multiprocessing as mp
import os
import time

CTX = mp.get_context("fork")


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class Bridge:
    """A pair of FIFOs, one JSON document a line in each direction."""

    def __init__(self, first, second):
        opened = {name: open(name, mode, buffering=1) for name, mode in (first, second)}
        self.out = opened[first[0] if first[1] == "w" else second[0]]
        self.into = opened[first[0] if first[1] == "r" else second[0]]

    def send(self, **message):
        self.out.write(json.dumps(message) + "\n")

    def receive(self):
        return json.loads(self.into.readline())


def read_policy(path):
    gains = hashlib.sha256()
    with open(path, "rb", buffering=0) as f:
        while block := f.read(1 << 16):
            gains.update(block)
            time.sleep(0.4)  # as fast as the share gives it
            say("progress")
    return gains.digest()[0] / 255


def simulate():
    say("role", role="process simulator")
    bridge = Bridge(("state.fifo", "w"), ("command.fifo", "r"))
    x, v, t = 0.0, 1.0, 0
    while True:
        bridge.send(t=t, x=x, v=v)
        v += 0.1 * bridge.receive()["force"]
        x, t = x + 0.1 * v, t + 1
        time.sleep(0.02)


def control(trace):
    say("role", role="process controller")
    say("settled")
    gain = read_policy("policy.bin")
    bridge = Bridge(("state.fifo", "r"), ("command.fifo", "w"))
    while True:
        state = bridge.receive()
        bridge.send(force=-gain * state["x"] - 0.5 * state["v"])
        trace.put((state["t"], state["x"]))


def record(trace):
    say("role", role="process recorder")
    with open("trace.csv", "w") as f:
        for t, x in iter(trace.get, None):
            f.write(f"{t},{x:.4f}\n")
            if t % 50 == 0:
                say("progress")


def main():
    say("root")
    say("role", role="main")
    with open("policy.bin", "wb") as f:
        f.write(os.urandom(80 << 16))
    for name in ("state.fifo", "command.fifo"):
        os.mkfifo(name)
    trace = CTX.Queue()
    parts = [CTX.Process(target=simulate), CTX.Process(target=control, args=(trace,)),
             CTX.Process(target=record, args=(trace,))]
    for p in parts:
        p.start()
    for p in parts:
        p.join()


if __name__ == "__main__":
    main()
