"""An async actor waits in its event loop for an item that only a later call to it could put."""

import json
import os
import queue
import tempfile

import ray

TRUTH = os.environ.get("CORPUS_TRUTH", os.devnull)


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(TRUTH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@ray.remote(num_cpus=0)
class Shelf:
    def __init__(self):
        self.items = queue.Queue(4)

    async def put(self, item):
        self.items.put(item)

    async def take(self):
        if self.items.empty():
            truth("role", role="subprocess"), truth("culprit", thread="AsyncIO Thread: default"), truth("settled")
        return self.items.get()  # CULPRIT


@ray.remote
def bake(shelf, loaves):
    for loaf in range(loaves):
        ray.get(shelf.put.remote(loaf))


@ray.remote
def sell(shelf, loaves):
    return [ray.get(shelf.take.remote()) for _ in range(loaves)]


def main():
    truth("root"), truth("role", role="main")
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20, _temp_dir=folder)
        shelf = Shelf.remote()
        sold = sell.remote(shelf, 8)
        ray.wait([sold], timeout=3)
        ray.get(bake.remote(shelf, 8))
        print(ray.get(sold))


if __name__ == "__main__":
    main()
