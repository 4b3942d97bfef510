"""A process is joined before its results are read.

It cannot end before its queue's feeder thread has written everything to the pipe, and the pipe is full:
"Joining processes that use queues" in the programming guidelines of Python's multiprocessing.
"""

from __future__ import annotations

import multiprocessing

from mpmon.demo.handshake import ready


def tokenize(document: int) -> bytes:
    """The tokens of one document."""
    return document.to_bytes(4, "little") * 16384


def prepare(tokens: multiprocessing.Queue[bytes]) -> None:
    """Tokenize all documents: a megabyte, where a pipe holds 64 KiB."""
    for document in range(16):
        tokens.put(tokenize(document))
    ready()


def main() -> None:
    """Prepare in another process, wait for it, then read what it made."""
    tokens: multiprocessing.Queue[bytes] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=prepare, args=(tokens,))
    worker.start()
    worker.join()
    print(sum(len(tokens.get()) for _ in range(16)))


if __name__ == "__main__":
    main()
