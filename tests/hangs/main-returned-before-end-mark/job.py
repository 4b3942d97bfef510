import json
import multiprocessing as mp
import os
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("fork")


def write(rows):
    say("role", role="process writer")
    with open("rows.txt", "w") as file:
        while (row := rows.recv()) is not None:
            file.write(row)


def beat():
    say("role", role="process beat")
    while True:
        time.sleep(1)


def evaluate(rows):
    for number in range(20):
        rows.send(f"row {number}\n")
        if number == 7:
            return "converged"
    rows.send(None)
    return "ended"


def main():
    say("root")
    say("role", role="main")
    far, rows = CTX.Pipe(duplex=False)
    CTX.Process(target=write, args=(far,)).start()
    CTX.Process(target=beat, daemon=True).start()
    far.close()
    print(evaluate(rows))
    say("culprit")
    say("settled")
    return rows


KEPT = main()
