import json
import logging
import logging.handlers
import multiprocessing as mp
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")
log = logging.getLogger("crawl")


class Forward(logging.handlers.QueueHandler):
    """Like QueueHandler, but does not drop records when there are many."""

    def enqueue(self, record):
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            if threading.current_thread() is not threading.main_thread():
                say("culprit", thread=threading.current_thread().name)
                say("settled")
            self.queue.put(record)  # CULPRIT


class Ledger(logging.Handler):
    """Writes records to the ledger file and tells when the disk takes its time."""

    def __init__(self, path):
        super().__init__()
        self.file = open(path, "a")

    def emit(self, record):
        t = time.monotonic()
        self.file.write(self.format(record) + "\n")
        self.file.flush()
        time.sleep(0.004)
        took = time.monotonic() - t
        if took > 0.003 and record.name != "crawl.ledger":
            logging.getLogger("crawl.ledger").warning("ledger took %.1f ms", 1000 * took)


def setup(records):
    log.setLevel(logging.INFO)
    log.addHandler(Forward(records))


def crawl(k, records):
    say("role", role=f"process crawler-{k}")
    say("waiter")
    log.handlers.clear()
    setup(records)
    for page in range(3000):
        log.info("crawler %d page %d: %s", k, page, "ok" if page % 7 else "moved")


def main():
    say("root")
    say("role", role="main")
    records = CTX.Queue(maxsize=50)
    setup(records)
    crawlers = [CTX.Process(target=crawl, args=(k, records)) for k in range(3)]
    for p in crawlers:
        p.start()
    listener = logging.handlers.QueueListener(records, Ledger("ledger.log"))
    listener.start()
    for p in crawlers:
        p.join()
    listener.stop()


if __name__ == "__main__":
    main()
