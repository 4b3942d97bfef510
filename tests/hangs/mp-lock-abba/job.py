import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def reindex(index, cache, both):
    say("role", role="process reindex")
    say("culprit", thread="MainThread", all=True)
    with index:
        both.wait()
        with cache:  # CULPRIT
            time.sleep(0.1)


def evict(index, cache, both):
    say("role", role="process evict")
    say("culprit", thread="MainThread", all=True)
    with cache:
        both.wait()
        with index:  # CULPRIT
            time.sleep(0.1)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    index, cache, both = ctx.Lock(), ctx.Lock(), ctx.Barrier(3)
    ps = [ctx.Process(target=f, args=(index, cache, both)) for f in (reindex, evict)]
    for p in ps:
        p.start()
    both.wait()
    say("settled")
    for p in ps:
        p.join()


if __name__ == "__main__":
    main()
