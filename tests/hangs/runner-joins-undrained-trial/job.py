import json
import multiprocessing as mp
import os
import threading
import time

def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def at(kind, n, **kw):
    """Says where this process ends up; the last of n also says that the state is settled."""
    say(kind, **kw)
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

TRIALS = 4


class Study:
    def __init__(self, slots):
        self.ctx = mp.get_context("fork")
        self.results, self.slots = self.ctx.Queue(), threading.Semaphore(slots)
        self.failed = []

    def runner(self, k):
        """One thread a trial; at most `slots` trials at once."""
        with self.slots:
            p = self.ctx.Process(target=trial, args=(k, self.results), name=f"trial-{k}")
            p.start()
            if k == 2:
                say("role", p.pid, role="process trial 2")
                say("waiter", p.pid)
                at("culprit", 3, thread="runner-2")
            p.join()  # CULPRIT
            if p.exitcode:
                self.failed.append(k)

    def run(self):
        threads = [threading.Thread(target=self.runner, args=(k,), name=f"runner-{k}") for k in range(TRIALS)]
        for t in threads:
            t.start()
            time.sleep(0.3)
        at("culprit", 3, thread="MainThread")
        for t in threads:
            t.join()  # CULPRIT
        return [self.results.get() for _ in range(TRIALS - len(self.failed))]


def history(k):
    """Trial 2 keeps its predictions for the error analysis."""
    rows = [{"epoch": e, "loss": 1 / (e + 1 + k)} for e in range(20)]
    if k == 2:
        for r in rows:
            r["predictions"] = [0.5] * 20000
    return rows


def trial(k, results):
    rows = history(k)
    results.put((k, rows))
    print(f"trial {k} done: {rows[-1]['loss']:.3f}", flush=True)


def main():
    say("root")
    say("role", role="main")
    study = Study(slots=1)
    best = min(study.run(), key=lambda r: r[1][-1]["loss"])
    print("best", best[0])


if __name__ == "__main__":
    main()
