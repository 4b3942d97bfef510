"""A prefork server at rest: its children select on the listening socket and on the pipe by which signals wake them."""

import json
import os
import select
import signal
import socket
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def serve(listener):
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    say("role", role="child")
    while not ending.is_set():
        if listener in select.select([listener, wakes], [], [])[0]:
            connection, _ = listener.accept()
            connection.close()
    os._exit(0)


def main():
    say("root")
    say("role", role="main")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    wanted = {signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    for _ in range(3):
        if os.fork() == 0:
            serve(listener)
    say("settled")
    signal.sigwait(wanted)


if __name__ == "__main__":
    main()
