"""Pairs of equal words that are far apart are searched for in a long text, which takes time that grows with its square."""
import json
import multiprocessing
import os
import re

FAR_APART = re.compile(r"(\w+) [^!]* \1!")


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def search(texts, found):
    truth("role", role="process searcher")
    for text in iter(texts.get, None):
        truth("settled")
        found.put(FAR_APART.search(text) is not None)


def main():
    truth("root")
    truth("role", role="main")
    texts, found = multiprocessing.Queue(), multiprocessing.Queue()
    multiprocessing.get_context("fork").Process(target=search, args=(texts, found), name="searcher", daemon=True).start()
    words = " ".join(f"word{number}" for number in range(12000))
    for _ in range(20):
        texts.put(words)
        print(found.get(), flush=True)
        truth("progress")


if __name__ == "__main__":
    main()
