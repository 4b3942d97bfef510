"""A shell leaves a command in the background; who ran the shell reads its output until the end."""

import json
import os
import subprocess


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def start():
    say("settled")
    done = subprocess.run(["sh", "-c", "sleep 1000000 & echo $!"], capture_output=True, text=True)  # CULPRIT
    return int(done.stdout)


def main():
    say("root")
    say("role", role="main")
    say("culprit")
    print(start())


if __name__ == "__main__":
    main()
