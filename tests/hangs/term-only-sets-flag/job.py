import json
import multiprocessing as mp
import os
import signal
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")


class Worker:
    def __init__(self, k, jobs, results):
        self.k, self.jobs, self.results = k, jobs, results
        self.stopping = False

    def on_term(self, signum, frame):
        self.stopping = True           # finish the job in hand, then leave
        say("culprit", thread="MainThread")

    def run(self):
        say("role", role=f"process worker-{self.k}")
        signal.signal(signal.SIGTERM, self.on_term)
        while not self.stopping:
            job = self.jobs.get()  # CULPRIT
            time.sleep(0.02)
            self.results.put((job, job ** 3 % 1009))


def recorder(results):
    say("role", role="process recorder")
    say("waiter")
    with open("results.txt", "w") as f:
        while True:
            f.write("%d %d\n" % results.get())
            f.flush()


def main():
    say("root")
    say("role", role="main")
    results = CTX.SimpleQueue()
    inboxes = [CTX.SimpleQueue() for _ in range(2)]
    workers = [CTX.Process(target=Worker(k, inbox, results).run) for k, inbox in enumerate(inboxes)]
    CTX.Process(target=recorder, args=(results,), daemon=True).start()
    for w in workers:
        w.start()
    for job in range(60):
        inboxes[job % 2].put(job)
    time.sleep(2)
    for w in workers:
        w.terminate()
    say("culprit", thread="MainThread")
    say("settled")
    for w in workers:
        w.join()  # CULPRIT
    print("stopped")


if __name__ == "__main__":
    main()
