import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.2)  # CULPRIT


def write(name):
    with open(name + ".part", "w") as file:
        file.write(name)
    os.rename(name + ".part", name)


def pack():
    say("role", role="process packer")
    for number in range(100):
        write(f"{number}.tar")
        if number == 2:
            say("culprit")
            say("settled")
        wait_for(f"{number}.sig")


def sign():
    say("role", role="process signer")
    for number in range(100):
        wait_for(f"{number}.tar")
        if number == 2:
            say("culprit")
            # The manifest of two archives is signed at once.
            wait_for(f"{number + 1}.tar")
        write(f"{number}.sig")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    both = [mp.get_context("spawn").Process(target=work) for work in (pack, sign)]
    for process in both:
        process.start()
    for process in both:
        process.join()
