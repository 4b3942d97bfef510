import json
import multiprocessing as mp
import os

WRITTEN = 0


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def writer(shards):
    global WRITTEN
    say("role", role="process writer")
    while True:
        shards.get()
        WRITTEN += 1  # in this process only


def until_written():
    while WRITTEN < 4: pass  # CULPRIT


def main():
    say("root"), say("role", role="main"), say("culprit", thread="MainThread")
    ctx = mp.get_context("fork")
    shards = ctx.Queue()
    for _ in range(2):
        process = ctx.Process(target=writer, args=(shards,), daemon=True)
        process.start()
    for _ in range(4): shards.put("shard")
    say("settled")
    until_written()


if __name__ == "__main__":
    main()
