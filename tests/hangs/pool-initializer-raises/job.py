"""The initializer of a pool raises in every worker: the pool starts new ones for ever, and map() waits."""

import json
import multiprocessing
import os
import threading
import time

VOCABULARY = "/nonexistent/vocabulary.txt"
WORDS: list[str] = []


def say(**event: object) -> None:
    line = json.dumps(event) + "\n"
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(line)


def read_vocabulary(path: str) -> None:
    with open(path) as file:
        WORDS.extend(file.read().split())


def encode(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split() if word in WORDS]


def settled() -> None:
    time.sleep(2)
    say(event="settled")


def main() -> None:
    say(event="root", pid=os.getpid())
    say(event="role", pid=os.getpid(), role="main")
    say(event="culprit", pid=os.getpid(), thread="MainThread")
    threading.Thread(target=settled, daemon=True).start()
    with multiprocessing.get_context("fork").Pool(2, read_vocabulary, (VOCABULARY,)) as pool:
        encoded = pool.map(encode, [f"text number {number}" for number in range(50)])  # CULPRIT
    print(sum(map(len, encoded)))


if __name__ == "__main__":
    main()
