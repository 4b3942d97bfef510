import json
import logging
import os
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

LEXICON = {"the": "DET", "old": "ADJ", "man": "NOUN", "boat": "NOUN"}


def tag(sentence):
    return " ".join(LEXICON.get(w, "X") for w in sentence.split())


def main():
    say("role", role=f"process tagger-{sys.argv[1]}")
    say("culprit", thread="MainThread")
    logging.basicConfig(level=logging.INFO)
    print("tagger ready", flush=True)
    settle(5)
    while True:
        line = sys.stdin.readline()  # CULPRIT
        if not line:
            break
        print(tag(line))


if __name__ == "__main__":
    main()
