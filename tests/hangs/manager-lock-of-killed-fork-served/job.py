"""A process that a fork server started is killed while it holds a lock of the manager; its siblings want that lock."""

import json
import multiprocessing as mp
import os
import signal
import time


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


class Index:
    def __init__(self, terms, lock):
        self.terms, self.lock = terms, lock

    def add(self, doc, words):
        with self.lock:
            for word in words:
                self.terms[word] = (*self.terms.get(word, ()), doc)
            if doc == 12:
                say("culprit", dead=True)
                os.kill(os.getpid(), signal.SIGKILL)


def index(k, n, terms, lock, alone):
    say("role", role=f"process index-{k}")
    mine = Index(terms, lock)
    for doc in range(k, 200, n):
        if doc > 12:
            alone.wait()
        mine.add(doc, {f"w{doc * part % 23}" for part in range(1, 6)})


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("forkserver")
    with ctx.Manager() as manager:
        terms, lock, alone = manager.dict(), manager.Lock(), ctx.Event()
        processes = [ctx.Process(target=index, args=(k, 3, terms, lock, alone), name=f"index-{k}") for k in range(3)]
        for process in processes:
            process.start()
        while processes[0].is_alive():
            time.sleep(0.1)
        alone.set()
        say("settled")
        for process in processes[1:]:
            process.join()
        print(len(terms))


if __name__ == "__main__":
    main()
