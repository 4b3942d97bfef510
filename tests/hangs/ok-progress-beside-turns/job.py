import json
import os
import multiprocessing
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(lock):
    say("role", role="process work")
    for _ in range(1000):
        with lock:
            time.sleep(9)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    lock = context.Lock()
    workers = [context.Process(target=work, args=(lock,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    say("settled")
    while any(worker.is_alive() for worker in workers):
        print(sum(worker.is_alive() for worker in workers), "at work", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
