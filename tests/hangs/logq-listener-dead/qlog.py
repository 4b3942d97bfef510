import logging
import threading
import time


class QueueHandler(logging.Handler):
    def __init__(self, q):
        super().__init__()
        self.q = q

    def emit(self, record):
        record.exc_info = None
        self.q.put((record.name, record.levelno, record.msg, record.args))


class Listener(threading.Thread):
    def __init__(self, q, path):
        super().__init__(name="log-listener", daemon=True)
        self.q, self.path = q, path

    def run(self):
        with open(self.path, "a") as f:
            while True:
                name, level, msg, args = self.q.get()
                f.write(f"{time.time():.3f} {name} {level} {msg % args}\n")
                f.flush()


def setup_worker(q):
    root = logging.getLogger()
    root.handlers[:] = [QueueHandler(q)]
    root.setLevel(logging.INFO)
