import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time

DESKS = 2


class Meeting:
    """A desk that wants the room for itself waits until it is the only one left in it."""

    def __init__(self):
        self.changed = mp.Condition()
        self.inside = mp.Value("i", 0, lock=False)

    def enter(self):
        with self.changed:
            self.inside.value += 1

    def alone(self):
        with self.changed:
            while self.inside.value > 1:
                self.changed.wait()  # CULPRIT

    def leave(self):
        with self.changed:
            self.inside.value -= 1
            self.changed.notify_all()


def desk(number, meeting):
    say("role", role=f"process desk-{number}")
    say("culprit", thread="MainThread")
    meeting.enter()
    time.sleep(0.5)
    meeting.alone()
    meeting.leave()


def count(meeting):
    say("role", role="process count")
    while True:
        time.sleep(0.7)
        print("inside:", meeting.inside.value)


def main():
    say("root")
    say("role", role="main")
    meeting = Meeting()
    mp.Process(target=count, args=(meeting,), daemon=True, name="count").start()
    desks = [mp.Process(target=desk, args=(number, meeting), name=f"desk-{number}") for number in range(DESKS)]
    for process in desks:
        process.start()
    say("settled")
    for process in desks:
        process.join()


if __name__ == "__main__":
    main()
