import json
import os
import csv
import multiprocessing as mp
import sys
import threading


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


class Source:
    """Rows of an export, the amount in the last column."""

    TEXT = "a,1\nb,2\nc,3\nd,4\ne,n/a\nf,6\n"

    def rows(self):
        for name, amount in csv.reader(self.TEXT.splitlines()):
            yield name, float(amount)


class Feeder(threading.Thread):
    def __init__(self, source, q, readers):
        super().__init__(name="feeder", daemon=True)
        self.source, self.q, self.readers = source, q, readers

    def run(self):
        for row in self.source.rows():
            self.q.put(row)
        for _ in range(self.readers):
            self.q.put(None)


def quiet(args):
    print(args.thread.name, args.exc_value, file=sys.stderr, flush=True)


def start_worker():
    say("role", role=f"pool worker {mp.current_process()._identity[0]}")


def start_manager():
    say("role", role="process manager")


class Summer:
    def __init__(self, q, total):
        self.q, self.total = q, total

    def pull(self):
        return self.q.get()

    def run(self):
        own = 0.0
        while (row := self.pull()) is not None:
            own += row[1]
        self.total.append(own)
        return own


def consume(q, total):
    say("waiter")
    settle(3)
    return Summer(q, total).run()


def collect(results):
    out = []
    for r in results:
        out.append(r.get())  # CULPRIT
    return out


def main():
    say("root")
    say("role", role="main")
    threading.excepthook = quiet
    ctx = mp.get_context("fork")
    manager = mp.managers.SyncManager(ctx=ctx)
    manager.start(start_manager)
    q, total = manager.Queue(), manager.list()
    with ctx.Pool(2, initializer=start_worker) as pool:
        results = [pool.apply_async(consume, (q, total)) for _ in range(2)]
        feeder = Feeder(Source(), q, readers=2)
        feeder.start()
        feeder.join()
        say("culprit", thread="MainThread")
        settle(3)
        print(sum(collect(results)))


if __name__ == "__main__":
    import multiprocessing.managers
    main()
