import json
import multiprocessing as mp
import os
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def copy(source, to):
    say("culprit")
    with open("console.log", "ab", buffering=0) as log:
        while data := os.read(source, 1 << 16):  # CULPRIT
            log.write(data)
            os.write(to, data)


def index(inbox):
    say("role", role="process indexer")
    say("waiter")
    while inbox.recv() is not None:
        pass


def main():
    say("root")
    say("role", role="main")
    inbox, far = mp.Pipe()
    mp.get_context("fork").Process(target=index, args=(far,), daemon=True).start()
    terminal = os.dup(1)
    source, end = os.pipe()
    os.dup2(end, 1)
    os.close(end)
    copier = threading.Thread(target=copy, args=(source, terminal))
    copier.start()
    for epoch in range(5):
        print("epoch", epoch, flush=True)
    say("settled")
    copier.join()  # CULPRIT
    os.dup2(terminal, 1)
    inbox.send(None)


main()
