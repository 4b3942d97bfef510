"""A server under a profiler: its main thread waits until SIGTERM sets an event, its threads answer requests."""

import json
import os
import signal
import socket
import threading

def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def serve(listener):
    while True:
        connection, _ = listener.accept()
        connection.close()


def main():
    say("root")
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    say("settled")
    over.wait()


if __name__ == "__main__":
    main()
