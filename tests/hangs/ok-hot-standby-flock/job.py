import multiprocessing as mp
import os
import tempfile
import threading
import time

from events import say
from lease import Lease


class Node:
    def __init__(self, k, path):
        self.k, self.path = k, path

    def lead(self):
        while time.monotonic() - self.lease.since < 30:
            os.utime(self.path)
            say("progress", leader=self.k)
            time.sleep(4)

    def run(self):
        while True:
            self.lease = Lease(self.path)
            self.lease.acquire()
            self.lead()
            self.lease.release()
            time.sleep(1)


def gossip():
    while True:
        time.sleep(1)


def node_main(k, path):
    say("role", role=f"process node-{k}")
    threading.Thread(target=gossip, name="gossip", daemon=True).start()
    Node(k, path).run()


def main():
    say("root")
    say("role", role="main")
    path = os.path.join(tempfile.mkdtemp(), "leader")
    open(path, "w").close()
    ctx = mp.get_context("fork")
    ps = [ctx.Process(target=node_main, args=(k, path)) for k in range(3)]
    for p in ps:
        p.start()
    say("settled")
    for p in ps:
        p.join()


if __name__ == "__main__":
    main()
