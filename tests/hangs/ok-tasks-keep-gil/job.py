import json, os
from concurrent.futures import ProcessPoolExecutor


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def digits(base):
    """One operation on integers takes minutes, and the interpreter keeps the GIL for all of it."""
    if base == 3:
        truth("settled")
    return (base ** (1 << 29)).bit_length()


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(digits, (7, 3))))
