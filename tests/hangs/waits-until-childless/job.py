import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import time
from multiprocessing.shared_memory import SharedMemory

TILES = 3


def render(memory, tile):
    time.sleep(0.2)
    memory.buf[tile] = tile
    os._exit(0)


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    memory = SharedMemory(create=True, size=TILES)
    for tile in range(TILES):
        if os.fork() == 0:
            render(memory, tile)
    left = TILES
    while True:
        try:
            pid, status = os.wait()  # CULPRIT
        except ChildProcessError:
            break
        left -= 1
        print(pid, status, left)
        if not left:
            say("settled")
    memory.unlink()


main()
