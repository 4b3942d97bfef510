"""A migration holds the store's lock; main waits for it, and a listener waits for news of a peer that has none."""
import json
import os
import socket
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Store:
    def __init__(self):
        self.lock, self.rows = threading.Lock(), []

    def migrate(self, begun):
        self.lock.acquire()
        begun.set()
        total = 0
        while len(self.rows) < 3000:
            total = (total * 31 + sum(number * number for number in range(1_000_000))) % 1_000_003
            self.rows.append(total)
            truth("progress")
        self.lock.release()

    def listen(self, peer):
        try:
            while news := peer.recv(100):
                self.lock.acquire()
                self.rows.append(len(news))
                self.lock.release()
        finally:
            peer.close()

    def first(self):
        self.lock.acquire()
        try:
            return self.rows[0]
        finally:
            self.lock.release()


def main():
    truth("root")
    truth("role", role="main")
    store, begun = Store(), threading.Event()
    near, far = socket.socketpair()
    threading.Thread(target=store.listen, args=(near,), daemon=True, name="listener").start()
    threading.Thread(target=store.migrate, args=(begun,), daemon=True, name="migration").start()
    begun.wait()
    truth("settled")
    print(store.first(), far.fileno(), flush=True)


if __name__ == "__main__":
    main()
