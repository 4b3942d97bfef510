"""A command of flask starts a server process and waits until SIGTERM sets an event."""

import json
import multiprocessing
import os
import signal
import socket
import threading

import flask

app = flask.Flask(__name__)


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def serve(listener):
    while True:
        connection, _ = listener.accept()
        connection.close()


@app.cli.command("serve")
def command():
    say("root")
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(listener,))
    process.start()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    say("settled")
    over.wait()
    process.terminate()
