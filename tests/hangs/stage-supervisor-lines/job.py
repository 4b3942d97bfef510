"""Supervisor of two pipeline stages: it reads their lines as they come and answers the questions among them."""
import json
import os
import selectors
import subprocess
import sys
import time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class StageHandle:
    def __init__(self, name):
        self.name, self.metrics = name, {}
        self.proc = subprocess.Popen([sys.executable, os.path.abspath(__file__), name], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self, text):
        self.proc.stdin.write(text + "\n")
        self.proc.stdin.flush()

    def handle(self, line):
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "metric":
            key, value = rest.split("=")
            self.metrics[key] = float(value)
        elif kind == "may-continue":
            self.answer("yes" if self.metrics.get("errors", 0) < 10 else "no")
            truth("progress")


class Supervisor:
    def __init__(self, names):
        self.selector = selectors.DefaultSelector()
        self.stages = [StageHandle(n) for n in names]
        for s in self.stages:
            self.selector.register(s.proc.stdout, selectors.EVENT_READ, s)

    def run(self):
        while self.selector.get_map():
            for key, _ in self.selector.select():               # CULPRIT
                line = key.fileobj.readline()
                if not line:
                    self.selector.unregister(key.fileobj)
                    continue
                key.data.handle(line)


class Stage:
    """The other side: some work, some metrics, and a question after each chunk."""

    def __init__(self, name):
        self.name, self.errors = name, 0

    def chunk(self, k):
        time.sleep(0.1 if self.name == "extract" else 0.15)
        self.errors += k % 17 == 16
        return {"rows": 100 * k, "errors": self.errors}

    def report(self, metrics, question):
        for key, value in metrics.items():
            sys.stdout.write(f"metric {key}={value}\n")
            if not question:
                sys.stdout.flush()
                time.sleep(0.05)
        if question:
            sys.stdout.write("may-continue\n")
        sys.stdout.flush()

    def run(self):
        truth("role", role=f"process {self.name}")
        truth("waiter")
        for k in range(10 ** 9):
            metrics = self.chunk(k)
            self.report(metrics, question=k % 5 == 4)
            if k % 5 == 4:
                if sys.stdin.readline().strip() != "yes":
                    return


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Stage(sys.argv[1]).run()
    else:
        truth("root")
        truth("role", role="main")
        truth("culprit", thread="MainThread")
        sup = Supervisor(["extract", "load"])
        truth("settled")
        sup.run()
