import fcntl
import time


class Lease:
    def __init__(self, path):
        self.f = open(path, "w")

    def acquire(self):
        fcntl.flock(self.f, fcntl.LOCK_EX)
        self.since = time.monotonic()

    def release(self):
        fcntl.flock(self.f, fcntl.LOCK_UN)
