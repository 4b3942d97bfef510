"""Solvers share one licence; a thread of the main process has it for the first minute."""
import json
import multiprocessing
import os
import subprocess
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def solve(number, licence, done):
    with licence:
        truth("settled")
        subprocess.run(["sleep", "60"], check=True)
    done.put(number)


def client(number, licence, done):
    truth("role", role=f"process client (SpawnProcess-{number + 1})")
    solve(number, licence, done)


def main():
    truth("root")
    truth("role", role="main")
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager:
        licence, done = manager.Lock(), manager.Queue()
        first = threading.Thread(target=solve, args=(0, licence, done))
        first.start()
        others = [spawn.Process(target=client, args=(number, licence, done)) for number in (1, 2)]
        for other in others:
            other.start()
        print([done.get() for _ in range(3)], flush=True)


if __name__ == "__main__":
    main()
