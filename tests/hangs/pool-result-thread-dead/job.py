import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Unreadable(Exception):
    """Pickled with one argument, made with two: it cannot be made again on the other side."""

    def __init__(self, file, reason):
        super().__init__(f"{file}: {reason}")


def name(counter):
    with counter:
        counter.value += 1
        say("role", role=f"pool worker {counter.value}")


def decode(number):
    if number == 3:
        say("settled")
        raise Unreadable(f"{number}.jpg", "truncated")


def main():
    say("culprit", thread="MainThread")
    ctx = mp.get_context("spawn")
    pool = ctx.Pool(2, initializer=name, initargs=(ctx.Value("i", 0),))

    print(pool.map(decode, range(8), chunksize=1))  # CULPRIT



if __name__ == "__main__":
    say("root"), say("role", role="main"), main()
