import json
import os
import subprocess


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def main():
    say("root")
    say("role", role="main")
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "train.log")
    open(path, "w").close()
    tail = subprocess.Popen(["tail", "-f", path], stdout=subprocess.PIPE)
    say("settled")
    for line in tail.stdout:
        print(line)


main()
