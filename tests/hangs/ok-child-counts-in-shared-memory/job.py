"""Main polls until its child, which never ends, has counted enough in shared memory; a writer waits for that."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def write(orders):
    say("role", role="process write")
    print(orders.get(), flush=True)


def press(pressed):
    say("role", role="process press")
    while True:
        time.sleep(4)
        pressed.value += 1
        say("progress")


def wait_for(pressed, wanted):
    while pressed.value < wanted:
        time.sleep(0.3)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    orders, pressed = context.Queue(), context.Value("i", 0)
    context.Process(target=write, args=(orders,), daemon=True).start()
    context.Process(target=press, args=(pressed,), daemon=True).start()
    say("settled")
    wait_for(pressed, 80)
    orders.put("ship")


if __name__ == "__main__":
    main()
