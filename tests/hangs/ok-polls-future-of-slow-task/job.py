import json
import os
import concurrent.futures
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def load(path):
    say("settled")
    time.sleep(40)
    return path


def main():
    say("root")
    say("role", role="main")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        future = pool.submit(load, "shard-0")
        while not future.done():
            print("not yet", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
