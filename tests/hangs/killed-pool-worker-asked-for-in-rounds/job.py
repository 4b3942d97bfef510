"""A pool worker is killed in its task; main asks for the result in rounds of four seconds."""

import json
import multiprocessing
import os
import signal


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def measure(k):
    if k == 3:
        say("role", role="pool worker 1")
        say("culprit", dead=True)
        say("settled")
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def main():
    say("root")
    say("role", role="main")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sizes = pool.map_async(measure, range(8), chunksize=1)
        while True:
            say("waiter")
            try:
                print(sizes.get(timeout=4))
                break
            except multiprocessing.TimeoutError:
                print("still measuring", flush=True)


if __name__ == "__main__":
    main()
