import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp


def worker(k, out):
    say("role", role=f"process worker {k}")
    for n in range(10):
        os.write(out, b"%d\n" % (n * k))


def main():
    say("root")
    say("role", role="main")
    ours, theirs = os.pipe()
    workers = [mp.Process(target=worker, args=(k, theirs)) for k in range(1, 4)]
    for process in workers:
        process.start()
    os.close(theirs)
    for process in workers:
        process.join()
    say("culprit", thread="MainThread")
    say("settled")
    parts, got = [], 0
    while got < 40:  # CULPRIT
        data = os.read(ours, 4096)  # CULPRIT
        got += data.count(b"\n")  # CULPRIT
        parts.append(data) if data else None  # CULPRIT
    print(sum(map(int, b"".join(parts).split())))


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
