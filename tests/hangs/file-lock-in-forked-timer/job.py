import json
import os
import fcntl
import multiprocessing as mp
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


class WorkspaceLock:
    def __init__(self, path="workspace.lock"):
        self.path = path
        self.file = None

    def acquire(self):
        self.file = open(self.path, "w")
        os.set_inheritable(self.file.fileno(), True)
        self._flock()
        return self

    def _flock(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self):
        self.file.close()
        self.file = None


class Telemetry:
    """Sends figures once an hour."""

    def __init__(self, interval):
        self.interval = interval

    def run(self):
        while True:
            time.sleep(self.interval)  # CULPRIT


def telemetry_main(interval):
    say("role", role="process telemetry")
    say("culprit", thread="MainThread")
    settle(3)
    Telemetry(interval).run()


def package_main(result):
    say("role", role="process packager")
    say("waiter")
    settle(3)
    lock = WorkspaceLock().acquire()
    result.put("package.tar")
    lock.release()


def tick_main():
    say("role", role="process ticker")
    while True:
        time.sleep(3600)


class Build:
    def __init__(self, ctx):
        self.ctx = ctx
        self.result = ctx.SimpleQueue()

    def start(self, fn, *args, daemon=False):
        p = self.ctx.Process(target=fn, args=args, daemon=daemon)
        p.start()
        return p

    def compile(self):
        lock = WorkspaceLock().acquire()
        self.start(telemetry_main, 3600, daemon=True)
        time.sleep(0.2)
        lock.release()

    def package(self):
        p = self.start(package_main, self.result)
        name = self.result.get()
        p.join()
        return name


def main():
    say("root")
    say("role", role="main")
    b = Build(mp.get_context("fork"))
    b.start(tick_main, daemon=True)
    b.compile()
    say("waiter")
    print(b.package())


if __name__ == "__main__":
    main()
