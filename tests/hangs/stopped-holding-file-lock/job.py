"""Packs shards for training; a governor pauses the biggest packer while the host is short of memory."""
import fcntl
import json
import multiprocessing as mp
import os
import signal
import time
import zlib
from multiprocessing.connection import wait

LIMIT_MB = 160


def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Cache:
    def __init__(self, root):
        self.root = root
        os.makedirs(root, exist_ok=True)

    def __enter__(self):
        self.lock = open(os.path.join(self.root, "cache.lock"), "a")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_):
        self.lock.close()

    def store(self, key, blob):
        with open(os.path.join(self.root, key), "wb") as f:
            f.write(blob)


def pack(k, sizes, cache):
    say("role", role=f"process shard-{k}")
    if k != 1:
        say("waiter")
    for n, mb in enumerate(sizes):
        with cache:
            raw = os.urandom(1 << 20) * mb
            packed = zlib.compress(raw, 9)  # CULPRIT
            cache.store(f"{k}-{n}.z", packed[:4096])
        del raw, packed
        time.sleep(0.01)


def resident_mb(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def free_mb():
    with open("/proc/meminfo") as f:
        fields = dict(line.split(":") for line in f)
    return int(fields["MemAvailable"]) >> 10  # kB, with the unit still in it


def govern(pids):
    say("role", role="process governor")
    paused = set()
    while True:
        for pid in pids:
            if pid not in paused and resident_mb(pid) > LIMIT_MB:
                time.sleep(0.3)
                os.kill(pid, signal.SIGSTOP)
                paused.add(pid)
                say("culprit", pid, thread="MainThread")
                say("settled")
        if paused and free_mb() > 4 * LIMIT_MB:
            for pid in paused:
                os.kill(pid, signal.SIGCONT)
            paused.clear()
        time.sleep(0.05)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    cache = Cache("cache")
    plans = [[2] * 400, [2] * 5 + [320], [2] * 400]
    packers = [ctx.Process(target=pack, args=(k, plan, cache), name=f"shard-{k}") for k, plan in enumerate(plans)]
    for p in packers:
        p.start()
    governor = ctx.Process(target=govern, args=([p.pid for p in packers],), name="governor", daemon=True)
    governor.start()
    left = {p.sentinel: p for p in packers}
    while left:
        for s in wait(list(left)):
            print(left.pop(s).name, "is done", flush=True)


if __name__ == "__main__":
    main()
