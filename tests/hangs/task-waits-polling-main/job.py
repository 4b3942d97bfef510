import json
import os
import concurrent.futures
import queue
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def encode(items):
    first = items.get()  # CULPRIT
    return first


def main():
    say("root")
    say("role", role="main")
    items = queue.Queue()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        future = pool.submit(encode, items)
        time.sleep(0.5)
        say("culprit")
        say("settled")
        while not future.done():
            print("not yet", flush=True)
            time.sleep(1)
        items.put(future.result())


if __name__ == "__main__":
    main()
