import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def quiet(folder):
    marker = os.path.join(folder, "compacting")
    while os.path.isfile(marker):
        time.sleep(0.3)  # CULPRIT


def write(rows, folder):
    say("role", role="process writer")
    say("waiter")
    while (batch := rows.recv()) is not None:
        with open(os.path.join(folder, "rows.csv"), "a") as file:
            file.writelines(f"{row}\n" for row in batch)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    folder = os.getcwd()
    here, there = mp.Pipe()
    mp.Process(target=write, args=(there, folder), name="writer", daemon=True).start()
    for part in range(50):
        here.send(list(range(part, part + 100)))
        if part == 9:
            # What a killed run leaves.
            open(os.path.join(folder, "compacting"), "w").close()
            say("culprit", thread="MainThread")
            say("settled")
        quiet(folder)
