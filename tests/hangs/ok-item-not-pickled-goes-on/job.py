"""A trainer reports to a writer; one report cannot be pickled and is lost, which nobody waits for."""

import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def writer(reports):
    say("role", role="process writer")
    for report in iter(reports.get, None):
        print(report["epoch"], flush=True)


def train(reports, batches):
    say("role", role="process trainer")
    reports.put({"epoch": 0, "schedule": lambda step: 0.1 / (step + 1)})
    say("settled")
    for epoch in range(1, 100):
        loss = sum(batches.get() for _ in range(20))
        reports.put({"epoch": epoch, "loss": loss})


def load(batches):
    say("role", role="process loader")
    for number in range(10_000):
        time.sleep(0.9)
        batches.put(1.0 / (number + 1))


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    reports, batches = ctx.Queue(), ctx.Queue(4)
    ctx.Process(target=writer, args=(reports,), daemon=True).start()
    ctx.Process(target=load, args=(batches,), daemon=True).start()
    trainer = ctx.Process(target=train, args=(reports, batches))
    trainer.start()
    trainer.join()


if __name__ == "__main__":
    main()
