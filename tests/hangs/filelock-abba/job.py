"""Two workers take two locks of filelock in opposite order."""

import json
import multiprocessing
import os

from filelock import FileLock

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def merge(source, target, met):
    truth("role", role=f"process merge-{source}")
    with FileLock(f"{source}.lock"):
        met.wait()
        truth("culprit", all=True)
        truth("settled")
        with FileLock(f"{target}.lock"):  # CULPRIT
            os.rename(source, target)


def main():
    truth("root")
    truth("role", role="main")
    met = multiprocessing.Barrier(2)
    pairs = (("a", "b"), ("b", "a"))
    workers = [multiprocessing.Process(target=merge, args=(*pair, met)) for pair in pairs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
