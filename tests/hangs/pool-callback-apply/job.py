import multiprocessing as mp
import threading
import time

from events import say


def init():
    say("role", role=f"pool worker {mp.current_process()._identity[0] - 1}")
    say("waiter")


def extract(doc):
    time.sleep(0.05)
    return [len(w) for w in doc.split()]


def refine(rows):
    return sum(rows) / max(1, len(rows))


class Stages:
    """two-stage flow on one pool; stage two starts when a document of stage one is there"""

    def __init__(self, pool, docs):
        self.pool, self.docs = pool, docs
        self.scores, self.finished = {}, threading.Event()

    def submit(self):
        for k, d in enumerate(self.docs):
            self.pool.apply_async(extract, (d,), callback=lambda rows, k=k: self.extracted(k, rows))

    def extracted(self, k, rows):
        if len(rows) < 20:
            self.store(k, refine(rows))
            return
        say("culprit", thread=threading.current_thread().name)
        say("settled")
        self.store(k, self.pool.apply(refine, (rows,)))  # CULPRIT

    def store(self, k, v):
        self.scores[k] = v
        if len(self.scores) == len(self.docs):
            self.finished.set()


def monitor(st):
    while True:
        time.sleep(0.5)
        st.seen = len(st.scores)


def main():
    say("root")
    say("role", role="main")
    docs = ["lorem ipsum " * (k % 12 + 1) for k in range(200)]
    with mp.get_context("fork").Pool(3, initializer=init) as pool:
        st = Stages(pool, docs)
        threading.Thread(target=monitor, args=(st,), name="monitor", daemon=True).start()
        st.submit()
        st.finished.wait()


if __name__ == "__main__":
    main()
