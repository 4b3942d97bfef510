"""A pool prepares the questions; then a child asks them in a terminal, where it loses a prompt that came with an answer."""

import json
import multiprocessing
import os
import pty
import sys
import time

PROGRAM = "while True: print('seen', input('> '), flush=True)"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def until(terminal, text):
    """Read until the program has said this."""
    said = b""
    while text not in said:
        said += os.read(terminal, 1000)  # CULPRIT


def ask(questions):
    truth("role", role="process ask")
    truth("culprit")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
    for question in questions:
        until(terminal, b"> ")
        os.write(terminal, question.encode() + b"\n")
        time.sleep(1)  # by now it has answered, and asks for the next one
        truth("settled")
        until(terminal, b"seen")


def prepare(number):
    return f"question {number}"


def main():
    truth("root")
    truth("role", role="main")
    with multiprocessing.Pool(2) as pool:
        questions = pool.map(prepare, range(4))
    child = multiprocessing.Process(target=ask, args=(questions,))
    child.start()
    child.join()


if __name__ == "__main__":
    main()
