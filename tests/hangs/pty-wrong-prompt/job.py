import json
import multiprocessing as mp
import os
import pty
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


ASKS = "import sys; print('keys changed, go on? (yes/no) ', end='', flush=True); sys.stdin.readline()"


class Session:
    """A program on a terminal of its own."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execv(command[0], command)

    def expect(self, words):
        seen = b""
        while words not in seen:
            seen += os.read(self.fd, 1000)  # CULPRIT
            say("settled")
        return seen


def login(host):
    say("role", role=f"pool worker {mp.current_process()._identity[0] - 1}")
    say("culprit")
    session = Session(sys.executable, "-c", ASKS, host)
    session.expect(b"password: ")
    os.write(session.fd, b"secret\n")
    return session.expect(b"$ ")


def main():
    say("root")
    say("role", role="main")
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(login, ["n1"]))


if __name__ == "__main__":
    main()
