import json
import os
import subprocess
import sys
import time

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


SERVER = """
import json, os, socket
fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, (json.dumps({"event": "role", "pid": os.getpid(), "role": "subprocess"}) + chr(10)).encode())
server = socket.create_server(("127.0.0.1", 0))
while True:
    server.accept()[0].close()
"""


def start():
    return subprocess.Popen([sys.executable, "-c", SERVER])


say("root")
say("role", role="main")
children = [start(), start()]
say("settled")
while True:
    for number, child in enumerate(children):
        if child.poll() is not None:
            children[number] = start()
    time.sleep(0.5)
