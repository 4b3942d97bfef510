"""A dataset is cleaned by two processes; one row does not match for a very long time."""
import json
import os
import re

from datasets import Dataset

LIST = re.compile(r"^((\w+\s?)+,?)+;$")


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def clean(row):
    if row["id"] == 90:
        truth("role", role="pool worker 0")
        truth("culprit")
        truth("settled")
    found = LIST.match(row["text"])  # CULPRIT
    return {"ok": found is not None}


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    texts = ["alpha beta, gamma delta;"] * 200
    texts[90] = "the quick brown fox jumps over the lazy dog and then some more words follow here"
    rows = Dataset.from_dict({"id": list(range(200)), "text": texts})
    print(rows.map(clean, num_proc=2, load_from_cache_file=False).num_rows)
