import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp


def trial(number, slots, reports, verdict):
    say("role", role=f"process trial {number}")
    with slots:
        say("culprit", thread="MainThread")
        reports.put(number)
        verdict.wait()  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    slots, reports, verdict = mp.BoundedSemaphore(2), mp.SimpleQueue(), mp.Event()
    trials = [mp.Process(target=trial, args=(number, slots, reports, verdict)) for number in range(4)]
    for one in trials:
        one.start()
    arrived = [reports.get(), reports.get()]
    say("settled")
    while len(arrived) < len(trials):
        arrived.append(reports.get())
    verdict.set()
