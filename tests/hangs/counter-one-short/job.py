"""An exporter polls until all rows are counted; the process that counted them was one short. A reader waits until told to stop."""
import json
import multiprocessing as mp
import os
import time

ROWS = 40


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def count(counted):
    for _ in range(1, ROWS):
        with counted.get_lock():
            counted.value += 1


def export(counted):
    note("role", role="process export")
    note("culprit", thread="MainThread")
    while True:
        if counted.value == ROWS:
            return
        time.sleep(0.02)  # CULPRIT


def read(counted, stop):
    note("role", role="process read")
    shown = 0
    while not stop.is_set():
        if counted.value > shown:
            shown = counted.value
        time.sleep(0.02)


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    counted, stop = mp.Value("i", 0), mp.Event()
    counter = mp.Process(target=count, args=(counted,))
    exporter = mp.Process(target=export, args=(counted,))
    reader = mp.Process(target=read, args=(counted, stop))
    for process in (counter, exporter, reader):
        process.start()
    counter.join()
    note("settled")
    exporter.join()
    stop.set()
    reader.join()


if __name__ == "__main__":
    main()
