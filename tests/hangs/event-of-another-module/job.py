import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp

SPAWN = mp.get_context("spawn")
LOADED = SPAWN.Event()


def serve(orders, answers):
    say("role", role="process serve")
    table = [number * number for number in range(1000)]
    LOADED.set()
    say("settled")
    while (number := orders.get()) is not None:
        answers.put(table[number])


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    orders, answers = SPAWN.Queue(), SPAWN.Queue()
    SPAWN.Process(target=serve, args=(orders, answers), daemon=True).start()
    LOADED.wait()  # CULPRIT
    orders.put(7)
    print(answers.get())
