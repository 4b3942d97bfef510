import json
import multiprocessing
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def unpack(path, lock):
    with lock, open(path, "rb", buffering=0) as shard:
        rows = 0
        while rows < 1000:
            part = shard.read(4096)  # CULPRIT
            rows += part.count(b"\n")  # CULPRIT
        return rows


def beat(k):
    while True:
        print(f"reader {k} alive", flush=True)
        time.sleep(1)


def reader(k, shards, counts, lock):
    say("role", role=f"process reader-{k}")
    say("waiter" if k else "culprit", thread="MainThread")
    threading.Thread(target=beat, args=(k,), daemon=True).start()
    time.sleep(0.5 * k)
    for path in iter(shards.get, None):
        counts.put(unpack(path, lock))


def collect(counts, left):
    quiet = 0
    while left:
        try:
            counts.get(timeout=1)
        except queue.Empty:
            quiet += 1
            print(f"{left} left, quiet for {quiet} s", flush=True)
            continue
        left -= 1


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"shard-{os.getpid()}")
    with open(path, "w") as shard:
        shard.write("row\n" * 700)
    context = multiprocessing.get_context("fork")
    shards, counts, lock = context.Queue(), context.Queue(), context.Lock()
    for k in range(2):
        context.Process(target=reader, args=(k, shards, counts, lock), name=f"reader-{k}", daemon=True).start()
    for _ in range(4):
        shards.put(path)
    threading.Timer(2.0, os.unlink, (path,)).start()
    threading.Timer(2.0, say, ("settled",)).start()
    collect(counts, 4)


if __name__ == "__main__":
    main()
