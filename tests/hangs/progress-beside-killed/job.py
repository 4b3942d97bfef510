import json
import os
import multiprocessing
import signal
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(number, lock, ready):
    say("role", role="process work")
    while True:
        with lock:  # CULPRIT
            if number == 0:
                say("culprit", dead=True)
                ready.set()
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    lock, ready = context.Lock(), context.Event()
    workers = [context.Process(target=work, args=(number, lock, ready)) for number in range(3)]
    for worker in workers:
        worker.start()
    ready.wait()
    time.sleep(0.5)
    say("settled")
    while any(worker.is_alive() for worker in workers[1:]):
        print(sum(worker.is_alive() for worker in workers), "of 3 at work", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
