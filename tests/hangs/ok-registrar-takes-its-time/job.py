import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time

ROUNDS = [90, 90, 90]


def registrar(ends):
    say("role", role="process registrar")
    while True:
        for end in ends:
            number = end.recv()
            time.sleep(1.5)
            say("progress")
            end.send(number + 1)


def client(number, end, everybody):
    say("role", role=f"process client {number}")
    for turn in range(ROUNDS[number]):
        end.send(turn)
        end.recv()
        if number == 2:
            say("settled")
    everybody.wait()


def main():
    say("root")
    say("role", role="main")
    pairs, everybody = [mp.Pipe() for _ in ROUNDS], mp.Barrier(3)
    mp.Process(target=registrar, args=([there for _, there in pairs],), daemon=True).start()
    clients = [mp.Process(target=client, args=(number, here, everybody)) for number, (here, _) in enumerate(pairs)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


if __name__ == "__main__":
    main()
