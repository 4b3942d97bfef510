"""A shell leaves a server in the background; who ran the shell reads its output until the end."""

import http.server
import json
import os
import subprocess
import sys


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

SHELL = '"$1" job.py serve & while [ ! -e ready ]; do sleep 0.1; done; echo $!'


def serve():
    say("role", role="subprocess job.py")
    say("culprit")
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    open("ready", "w").close()
    say("settled")
    server.serve_forever()  # CULPRIT


def start():
    done = subprocess.run(["sh", "-c", SHELL, "sh", sys.executable], capture_output=True, text=True)  # CULPRIT
    return int(done.stdout)


def main():
    if sys.argv[1:]:
        return serve()
    say("root")
    say("role", role="main")
    say("culprit")
    print(start())


if __name__ == "__main__":
    main()
