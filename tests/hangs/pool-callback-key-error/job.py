"""Votes of readers are counted by a pool; each result is added to the shelf of its genre."""
import json
import os
from multiprocessing import Pool


def say(event, **more):
    with open(os.environ["CORPUS_TRUTH"], "a") as f:
        f.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


SHELVES = {"crime": 0, "poetry": 0}


def count(vote):
    return ("atlas" if vote == 40 else "crime" if vote % 2 else "poetry"), vote


def shelve(result):
    genre, votes = result
    if genre not in SHELVES:
        say("settled")
    SHELVES[genre] += votes


def ready():
    say("role", role="pool worker 0")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    with Pool(2, initializer=ready) as pool:
        waiting = [pool.apply_async(count, (vote,), callback=shelve) for vote in range(60)]
        for one in waiting:
            one.wait()  # CULPRIT
    print(SHELVES)
