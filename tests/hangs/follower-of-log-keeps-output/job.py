"""A script leaves `tail -f` running; who started it reads its output until the end."""

import json
import os
import subprocess


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def prepare(name):
    say("culprit")
    open(name, "w").close()
    say("settled")
    return subprocess.run(["sh", "-c", f"tail -f {name} & echo ready"], capture_output=True)  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    print(prepare("log"))


if __name__ == "__main__":
    main()
