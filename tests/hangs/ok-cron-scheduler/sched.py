import heapq
import threading
import time


class Job:
    def __init__(self, name, every, fn):
        self.name, self.every, self.fn = name, every, fn


class Scheduler:
    def __init__(self):
        self.heap, self.stop, self.n = [], threading.Event(), 0

    def add(self, job):
        heapq.heappush(self.heap, (time.monotonic(), self.n, job))
        self.n += 1

    def run(self):
        while not self.stop.is_set():
            due, n, job = self.heap[0]
            if (left := due - time.monotonic()) > 0:
                self.stop.wait(left)
                continue
            heapq.heapreplace(self.heap, (due + job.every, n, job))
            job.fn()
