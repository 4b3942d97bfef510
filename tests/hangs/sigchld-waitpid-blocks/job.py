import json
import multiprocessing as mp
import os
import signal


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def reap(number, frame):
    while os.waitpid(-1, 0)[0]:  # CULPRIT
        pass


def worker(tasks):
    say("role", role="process worker")
    while True:
        # One task at a time, and each is answered.


        task = tasks.recv()
        tasks.send(task * task)


def exporter():
    say("role", role="process exporter")
    say("settled")


def main():
    say("root"), say("role", role="main"), say("culprit", thread="MainThread")
    signal.signal(signal.SIGCHLD, reap)
    ctx = mp.get_context("fork")
    ours, theirs = ctx.Pipe()
    for process in (ctx.Process(target=worker, args=(theirs,)), ctx.Process(target=exporter)):

        process.start()
    # The worker is given its next task when the last one is done; the exporter ends
    # while main waits, and its end is handled in the middle of that.
    answers = []
    for task in range(1000):
        if task == 0:
            continue
        ours.send(task)
        answers.append(ours.recv())


if __name__ == "__main__":
    main()
