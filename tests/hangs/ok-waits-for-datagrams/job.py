import json
import os
import signal
import socket
import subprocess
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def serve():
    say("role", role="subprocess job.py")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    while True:
        print(server.recvfrom(100))


def main():
    say("root")
    say("role", role="main")
    child = subprocess.Popen([sys.executable, "job.py", "serve"])
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    say("settled")
    while True:
        try:
            child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        break


serve() if sys.argv[1:] else main()
