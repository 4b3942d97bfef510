import json
import multiprocessing as mp
import os
from concurrent.futures import ProcessPoolExecutor, as_completed

from decoder import Decoder


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def thumbnail(name):
    say("role", role="pool worker 0")
    say("culprit", thread="MainThread")
    say("settled")

    with Decoder() as decoder:
        return decoder.decode(name)


def main():
    say("root")
    say("role", role="main")
    with ProcessPoolExecutor(2, mp_context=mp.get_context("forkserver")) as pool:
        futures = [pool.submit(thumbnail, name) for name in ["cat.mp4"]]

        for future in as_completed(futures):
            print(future.result())


if __name__ == "__main__":
    main()
