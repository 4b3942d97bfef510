"""Main waits until somebody opens a named pipe to write; its workers wait for what it reads there."""

import json
import multiprocessing
import os


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(pages):
    say("role", role="process work")
    while True:
        pages.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    pages = context.Queue()
    for _ in range(2):
        context.Process(target=work, args=(pages,), daemon=True).start()
    os.mkfifo("orders")
    say("settled")
    while True:
        with open("orders") as orders:
            for line in orders:
                pages.put(line)


if __name__ == "__main__":
    main()
