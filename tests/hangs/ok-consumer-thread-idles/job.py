import json
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(jobs):
    while True:
        print(jobs.get())


def main():
    say("root")
    say("role", role="main")
    jobs = queue.Queue()
    threading.Thread(target=work, args=(jobs,), daemon=True).start()
    say("settled")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        pass


main()
