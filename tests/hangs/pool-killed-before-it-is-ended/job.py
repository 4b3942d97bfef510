"""All workers of a pool were killed, one of them with the lock of its queue, and main ends the pool."""

import json
import multiprocessing
import os
import signal
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def square(number):
    return number * number


def main():
    say("root")
    say("role", role="main")
    pool = multiprocessing.Pool(2)
    print(pool.map(square, range(4)))
    time.sleep(0.3)
    for worker in multiprocessing.active_children():
        say("role", worker.pid, role="pool worker")
        say("culprit", worker.pid, forgotten=True)
        os.kill(worker.pid, signal.SIGKILL)
    say("waiter")
    say("settled")
    pool.terminate()
    pool.join()


if __name__ == "__main__":
    main()
