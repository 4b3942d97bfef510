import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def take_slot(slots):
    say("role", role="pool worker")
    if slots.empty():
        say("culprit", thread="MainThread")
        say("settled")
    slots.get()  # CULPRIT


def work(number):
    if number == 7:
        say("culprit", thread="MainThread", dead=True)
        os._exit(1)
    time.sleep(0.1)
    return number


def main():
    say("root")
    say("role", role="main")
    slots = mp.Queue()
    for slot in range(3):
        slots.put(slot)
    time.sleep(0.5)
    with mp.Pool(3, initializer=take_slot, initargs=(slots,)) as pool:
        print(sum(pool.map(work, range(12), chunksize=1)))


if __name__ == "__main__":
    main()
