import json
import multiprocessing as mp
import os
import signal
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(k, batches):
    say("role", role=f"process producer-{k}")
    for i in range(3):
        batches.put((k, i))
        time.sleep(0.1)
    time.sleep(0.3)
    say("culprit", thread="MainThread", all=True, dead=True)
    if k == 0:
        raise ValueError("corrupt record 3")
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    batches = ctx.Queue(8)
    ps = [ctx.Process(target=produce, args=(k, batches), daemon=True) for k in range(2)]
    for p in ps:
        p.start()
    for step in range(100):
        if step == 6:
            say("settled")
        print(step, batches.get(), flush=True)


if __name__ == "__main__":
    main()
