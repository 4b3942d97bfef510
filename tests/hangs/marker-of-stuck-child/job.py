import json
import multiprocessing
import os
import tempfile
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def convert(marker):
    say("role", role="process convert")
    say("culprit")
    ours, _ = os.pipe()
    os.read(ours, 1)  # CULPRIT
    open(marker, "w").close()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    marker = os.path.join(tempfile.mkdtemp(), "converted")
    multiprocessing.get_context("fork").Process(target=convert, args=(marker,), name="convert").start()
    say("settled")
    while not os.path.exists(marker):
        time.sleep(0.3)
