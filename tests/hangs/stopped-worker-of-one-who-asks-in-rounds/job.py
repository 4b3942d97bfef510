"""A worker is stopped; main asks for its result in rounds of five seconds."""

import json
import multiprocessing
import os
import queue
import signal
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(results):
    say("role", role="process work")
    time.sleep(0.5)
    say("culprit")
    say("settled")
    os.kill(os.getpid(), signal.SIGSTOP)  # CULPRIT
    results.put(1)


def main():
    say("root")
    say("role", role="main")
    results = multiprocessing.Queue()
    multiprocessing.Process(target=work, args=(results,)).start()
    while True:
        try:
            say("waiter")
            print(results.get(timeout=5))
            break
        except queue.Empty:
            print("still waiting", flush=True)


if __name__ == "__main__":
    main()
