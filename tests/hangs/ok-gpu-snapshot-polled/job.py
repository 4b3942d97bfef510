import json
import os
import threading
import time

import torch
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"


class Done:
    """a device event (or a timer where there is no device)"""

    def __init__(self, stream):
        self.end = time.monotonic() + 4.5
        self.event = None
        if stream is not None:
            self.event = torch.cuda.Event()
            self.event.record(stream)

    def query(self):
        return self.event.query() if self.event is not None else time.monotonic() > self.end


class Snapshots:
    def __init__(self, sink):
        self.sink, self.stream = sink, torch.cuda.Stream() if DEV == "cuda" else None
        self.want, self.free = threading.Event(), threading.Event()
        self.parts = []
        threading.Thread(target=self.run, name="snapshot", daemon=True).start()

    def start(self, params):
        self.parts = params
        self.free.clear()
        self.want.set()

    def copy(self, p):
        if self.stream is None:
            return p.clone(), Done(None)
        host = torch.empty(p.shape, pin_memory=True)
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(8_000_000_000)                 # a slow, throttled copy
            host.copy_(p, non_blocking=True)
        return host, Done(self.stream)

    def run(self):
        while True:
            self.want.wait()
            self.want.clear()
            for k, p in enumerate(self.parts):
                host, done = self.copy(p)
                while not done.query():
                    time.sleep(0.02)
                self.sink.send(host.sum().item())
                say("progress", part=k)
                if k == 1:
                    say("settled")
            self.free.set()


def sink(conn):
    say("role", role="process sink")
    while True:
        conn.recv()


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("spawn")
    out, there = ctx.Pipe()
    ctx.Process(target=sink, args=(there,), daemon=True).start()
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)]).to(DEV)
    snapshots = Snapshots(out)
    while True:
        for _ in range(5):
            model(torch.randn(8, 64, device=DEV)).square().mean().backward()
            model.zero_grad()
        snapshots.start([p.detach() for p in model.parameters()])
        snapshots.free.wait()


if __name__ == "__main__":
    main()
