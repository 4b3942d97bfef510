import queue
import socket
import struct
import threading
import time

from events import say


class Request:
    def __init__(self, values):
        self.values = values
        self.ready = threading.Event()
        self.answer = None


class Batcher:
    def __init__(self, width, max_wait=0.02, max_batch=8):
        self.width, self.max_wait, self.max_batch = width, max_wait, max_batch
        self.inbox = queue.Queue()
        self.done = 0
        threading.Thread(target=self.loop, name="batcher", daemon=True).start()

    def submit(self, values):
        r = Request(values)
        self.inbox.put(r)
        r.ready.wait()  # CULPRIT
        return r.answer

    def collect(self):
        batch, end = [self.inbox.get()], time.monotonic() + self.max_wait
        while len(batch) < self.max_batch and (left := end - time.monotonic()) > 0:
            try:
                batch.append(self.inbox.get(timeout=left))
            except queue.Empty:
                break
        return batch

    def loop(self):
        while True:
            batch = self.collect()
            cols = list(zip(*(r.values for r in batch), strict=True))
            sums = [sum(c) for c in cols]
            for r in batch:
                r.answer = sums[0] + sum(r.values[: self.width]) / self.width if r.values[self.width - 1] else 0.0
                r.ready.set()
            self.done += len(batch)


class Server:
    def __init__(self, listener):
        self.listener, self.batcher = listener, Batcher(8)

    def stats(self):
        while True:
            time.sleep(1.0)
            self.depth = self.batcher.inbox.qsize()

    def handle(self, conn):
        say("culprit", thread=threading.current_thread().name)
        while head := conn.recv(4):
            n, = struct.unpack("!i", head)
            values = struct.unpack(f"!{n}d", conn.recv(8 * n, socket.MSG_WAITALL))
            conn.sendall(struct.pack("!d", self.batcher.submit(values)))

    def serve(self):
        threading.Thread(target=self.stats, name="stats", daemon=True).start()
        k = 0
        while True:
            conn, _ = self.listener.accept()
            threading.Thread(target=self.handle, args=(conn,), name=f"conn-{k}", daemon=True).start()
            k += 1
