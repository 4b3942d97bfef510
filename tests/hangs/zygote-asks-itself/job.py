import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import os
import socket
import time

PATH = "zygote.sock"


def ask(name):
    with socket.socket(socket.AF_UNIX) as asking:
        while asking.connect_ex(PATH):
            time.sleep(0.05)
        asking.sendall(f"{name}\n".encode())
        return asking.makefile().readline()  # CULPRIT


def album():
    say("role", role="process album")
    say("culprit", thread="MainThread")
    say("settled")
    return ask("picture")


def picture():
    return "picture\n"


def serve():
    say("role", role="process zygote")
    say("culprit", thread="MainThread")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(PATH)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        task = globals()[connection.makefile().readline().strip()]
        pid = os.fork()
        if pid == 0:
            connection.sendall(task().encode())
            os._exit(0)
        connection.close()
        os.waitpid(pid, 0)  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    mp.Process(target=serve, daemon=True).start()
    print(ask("picture"), ask("album"))
