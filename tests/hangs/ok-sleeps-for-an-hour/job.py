import json
import os
import multiprocessing
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def main():
    say("root")
    say("role", role="main")
    pool = multiprocessing.get_context("fork").Pool(2)
    print(pool.map(abs, [1, -2]))
    say("settled")
    time.sleep(3600)


if __name__ == "__main__":
    main()
