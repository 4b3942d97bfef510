import json
import multiprocessing as mp
import os
import socket
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")
RENDERERS = 5


def render(tile):
    time.sleep(0.05)
    return {"tile": tile, "mean": (tile * 37 % 255) / 255}


def renderer(k, path, ready):
    say("role", role=f"process renderer-{k}")
    say("waiter")
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    ready.put(k)
    lines = sock.makefile("rw")
    for line in lines:
        lines.write(json.dumps(render(int(line))) + "\n")
        lines.flush()


class SceneServer:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen(1)

    def all_ready(self, ready):
        seen = set()
        say("culprit", thread="MainThread")
        while len(seen) < RENDERERS:
            seen.add(ready.get())  # CULPRIT
            if len(seen) == 2:
                say("settled")

    def run(self, tiles):
        conns = [self.sock.accept()[0].makefile("rw") for _ in range(RENDERERS)]
        image = {}
        for t in range(tiles):
            c = conns[t % RENDERERS]
            c.write(f"{t}\n")
            c.flush()
            image[t] = json.loads(c.readline())
        return image


def main():
    say("root")
    say("role", role="main")
    ready, server = CTX.Queue(), SceneServer("scene.sock")
    for k in range(RENDERERS):
        CTX.Process(target=renderer, args=(k, "scene.sock", ready), daemon=True).start()
    server.all_ready(ready)
    print(len(server.run(200)), "tiles")


if __name__ == "__main__":
    main()
