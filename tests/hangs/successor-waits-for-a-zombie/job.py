"""A successor waits until its predecessor has ended, which its parent would reap once the successor is ready, and says so every two seconds."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid):
    told = time.monotonic()
    while is_there(pid):
        if time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"process {pid} still ends", flush=True)
        time.sleep(0.5)  # CULPRIT


def succeed(predecessor, ready):
    say("role", role="process succeed")
    say("culprit")
    say("settled")
    wait_for_end(predecessor)
    ready.send(True)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    ready, end = context.Pipe()
    first = context.Process(target=time.sleep, args=(0.1,))
    first.start()
    context.Process(target=succeed, args=(first.pid, end), daemon=True).start()
    ready.recv()
    first.join()


if __name__ == "__main__":
    main()
