import json
import os
import http.server
import subprocess
import sys
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def serve():
    say("role", role="subprocess job.py")
    http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler).serve_forever()


def main():
    say("root")
    say("role", role="main")
    server = subprocess.Popen([sys.executable, "job.py", "serve"])
    time.sleep(0.5)
    say("settled")
    while server.poll() is None:
        time.sleep(1)


serve() if sys.argv[1:] else main()
