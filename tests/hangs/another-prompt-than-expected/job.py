"""A script logs in at a console over a pseudo terminal, and waits for another prompt than the console shows."""

import json
import multiprocessing
import os
import pty
import sys

CONSOLE = "input('login: '); input('Password for admin: '); print('welcome')"


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def expect(terminal, prompt):
    seen = ""
    while prompt not in seen:
        seen += os.read(terminal, 1024).decode()  # CULPRIT


def backup(device):
    say("role", role="process backup")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", CONSOLE])
    expect(terminal, "login: ")
    os.write(terminal, b"admin\n")
    say("culprit")
    say("settled")
    expect(terminal, "Password: ")
    os.write(terminal, b"secret\n")
    print(device, os.waitpid(child, 0))


def main():
    say("root")
    say("role", role="main")
    process = multiprocessing.Process(target=backup, args=("edge-1",))
    process.start()
    say("waiter")
    process.join()


if __name__ == "__main__":
    main()
