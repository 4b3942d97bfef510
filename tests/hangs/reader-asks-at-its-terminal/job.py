"""Lines go to a program that keeps them in files, and asks before it replaces an old one."""
import json
import multiprocessing
import os
import pty
import subprocess
import sys


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def keep(source):
    truth("role", role=f"subprocess {os.path.basename(__file__)}")
    truth("culprit")
    with open("log.1", "wb"), os.fdopen(source, "rb") as lines:
        for number, line in enumerate(lines):
            if number == 100:
                truth("settled")
                if input("Overwrite log.1? ") != "yes":  # CULPRIT
                    return
            with open("log.1", "ab") as log:
                log.write(line)


def send(terminal):
    truth("role", role="process send")
    source, sink = os.pipe()
    subprocess.Popen(
        [sys.executable, __file__, str(source)], stdin=terminal, stdout=terminal, pass_fds=[source]
    )
    os.close(source)
    while True:
        os.write(sink, b"another line\n" * 10)


def main():
    truth("root")
    truth("role", role="main")
    nobody, terminal = pty.openpty()
    sender = multiprocessing.get_context("fork").Process(target=send, args=(terminal,))
    sender.start()
    sender.join()
    os.close(nobody)


if __name__ == "__main__":
    keep(int(sys.argv[1])) if sys.argv[1:] else main()
