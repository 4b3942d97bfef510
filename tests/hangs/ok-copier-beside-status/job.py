"""A process appends a block to a file again and again at one line, while a thread of it says how it is; main waits for its end."""

import json
import multiprocessing as mp
import os
import threading
import time


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def status():
    while True:
        time.sleep(1.0)
        print("copying", flush=True)


def copy(block, path):
    say("role", role="process copier")
    threading.Thread(target=status, name="status", daemon=True).start()
    with open(path, "ab", buffering=0) as file:
        say("settled")
        while file.tell() < 100_000 * len(block):
            file.write(block)
            time.sleep(0.25)


def main():
    say("root")
    say("role", role="main")
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"copy-{os.getpid()}")
    process = mp.get_context("fork").Process(target=copy, args=(bytes(1000), path), daemon=True)
    process.start()
    try:
        process.join()
    finally:
        os.unlink(path)


if __name__ == "__main__":
    main()
