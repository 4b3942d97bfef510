"""A collector asks for results without waiting and counts in an attribute how often there was none; one result is missing."""

import json
import multiprocessing
import os
import queue
import time
from collections import Counter


def say(**event: object) -> None:
    line = json.dumps(event) + "\n"
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(line)


class Collector:
    def __init__(self, results: "multiprocessing.Queue[int]") -> None:
        self.results, self.done, self.polls = results, 0, Counter[str]()

    def collect(self, count: int) -> None:
        while self.done < count:
            try:
                self.results.get_nowait()
            except queue.Empty:
                self.polls["in vain"] += 1
                time.sleep(0.25)
                continue
            self.done += 1


def score(tasks: "multiprocessing.Queue[int]", results: "multiprocessing.Queue[int]") -> None:
    say(event="role", pid=os.getpid(), role=f"process {multiprocessing.current_process().name}")
    while True:
        task = tasks.get()  # CULPRIT
        if task % 7 != 6:
            results.put(task * task)
        else:
            say(event="culprit", pid=os.getpid(), thread="MainThread")


def main() -> None:
    say(event="root", pid=os.getpid())
    say(event="role", pid=os.getpid(), role="main")
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    for number in range(2):
        context.Process(target=score, args=(tasks, results), name=f"score-{number}", daemon=True).start()
    for task in range(10):
        tasks.put(task)
    say(event="settled")
    Collector(results).collect(10)


if __name__ == "__main__":
    main()
