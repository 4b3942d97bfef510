"""Main looks every second whether the file is there that a person makes; the workers of its pool are idle."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def main():
    say("root")
    say("role", role="main")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, range(8)))
        say("settled")
        while not os.path.exists("labels"):
            time.sleep(1)
        print(pool.map(abs, range(8)))


if __name__ == "__main__":
    main()
