import json
import os
import queue
import threading


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


REPORTS = queue.Queue()


def collect():
    say("settled")
    for _ in range(3):
        with open("reports") as pipe:
            REPORTS.put(pipe.read())


say("root", os.getppid())
say("role", role="main")
threading.Thread(target=collect).start()
for _ in range(3):
    print(REPORTS.get())
