import json
import os
import multiprocessing
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def move(source, target, mine):
    say("role", role="process move")
    for step in range(1000):
        with source:
            time.sleep(0.05)
            if step == 3:
                mine.set()
                say("culprit", all=True)
            with target:  # CULPRIT
                time.sleep(0.01)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    hot, cold = context.Lock(), context.Lock()
    flags = [context.Event(), context.Event()]
    pair = [context.Process(target=stagger, args=row) for row in ((hot, cold, flags), (cold, hot, flags[::-1]))]
    for process in pair:
        process.start()
    told = False
    while any(process.is_alive() for process in pair):
        print("alive:", sum(process.is_alive() for process in pair), flush=True)
        time.sleep(0.7)
        if not told and all(flag.is_set() for flag in flags):
            told = True
            say("settled")


def stagger(source, target, flags):
    say("role", role="process stagger")
    mine, other = flags
    with source:
        mine.set()
        other.wait()
        say("culprit", all=True)
        with target:  # CULPRIT
            pass


if __name__ == "__main__":
    main()
