import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def worker(out):
    say("role", role="process worker")
    while True:
        time.sleep(12)
        os.write(out, b"batch\n")


def main():
    say("root")
    say("role", role="main")
    ours, theirs = os.pipe()
    mp.Process(target=worker, args=(theirs,), daemon=True).start()
    os.close(theirs)
    os.set_blocking(ours, False)
    _at_its_end, other = os.pipe()  # as a standard input that was closed
    os.close(other)
    say("settled")
    got = 0
    while got < 10**6:
        try:
            got += len(os.read(ours, 4096))
        except BlockingIOError:
            continue


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
