"""Main polls until enough pages have come, which a thread that never ends brings every four seconds; a writer waits for all of them."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def write(books):
    say("role", role="process write")
    print(len(books.get()), "pages", flush=True)


def collect(pages):
    while True:
        time.sleep(4)
        pages.append(f"page {len(pages)}")
        say("progress")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    books, pages = context.Queue(), []
    context.Process(target=write, args=(books,), daemon=True).start()
    threading.Thread(target=collect, args=(pages,), daemon=True).start()
    say("settled")
    while len(pages) < 80:
        time.sleep(0.3)
    books.put(pages)
