import json
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def beat(started):
    while True:
        print(f"alive for {time.monotonic() - started:.0f} s", flush=True)
        time.sleep(1.0)


def load(items):
    for number in range(3):
        items.put(number)


def main():
    say("root")
    say("role", role="main")
    items = queue.Queue(maxsize=2)
    threading.Thread(target=beat, args=(time.monotonic(),), daemon=True).start()
    threading.Thread(target=load, args=(items,)).start()
    for number in range(4):
        if number == 3:
            say("culprit")
            say("settled")
        print(items.get())  # CULPRIT


if __name__ == "__main__":
    main()
