"""Everything that goes over a pipe, as it is written there."""

import hashlib
import multiprocessing
import sys
from multiprocessing import connection

SENT = hashlib.sha256()
own_send = connection.Connection._send


def send(self, buf, write=connection.Connection._write):
    SENT.update(bytes(buf))
    return own_send(self, buf, write)


class Sample:
    def __init__(self, number):
        self.number, self.name, self.parts = number, f"sample {number}", [number] * number


def main(method):
    connection.Connection._send = send
    context = multiprocessing.get_context(method)
    simple = context.SimpleQueue()
    for sample in (Sample(3), {"a": (1, 2.5)}, None, b"x" * 70000):
        if sample is None or not isinstance(sample, bytes):
            simple.put(sample)
            simple.get()
    queue = context.Queue()
    for sample in (Sample(5), [None, True], "text"):
        queue.put(sample)
        queue.get()
    pool = context.Pool(2)
    answer = pool.map(abs, [-1, -2, -3])
    pool.close()
    pool.join()
    print(answer, SENT.hexdigest() if method == "fork" else "")


if __name__ == "__main__":
    main(sys.argv[1])
