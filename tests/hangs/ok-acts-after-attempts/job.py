"""A feeder waits for results with a short time limit; after enough attempts, counted in an attribute, it sends more work."""

import json
import multiprocessing
import os
import queue


def say(**event: object) -> None:
    line = json.dumps(event) + "\n"
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(line)


class Feeder:
    PATIENCE = 100

    def __init__(self, tasks: "multiprocessing.Queue[int]", results: "multiprocessing.Queue[int]") -> None:
        self.tasks, self.results, self.idle = tasks, results, 0

    def note_silence(self) -> None:
        self.idle += 1
        if self.idle > self.PATIENCE:
            self.idle = 0
            self.tasks.put(1)

    def run(self) -> None:
        while True:
            try:
                print(self.results.get(timeout=0.3), flush=True)
            except queue.Empty:
                self.note_silence()


def work(tasks: "multiprocessing.Queue[int]", results: "multiprocessing.Queue[int]") -> None:
    say(event="role", pid=os.getpid(), role=f"process {multiprocessing.current_process().name}")
    while True:
        results.put(tasks.get() + 1)


def main() -> None:
    say(event="root", pid=os.getpid())
    say(event="role", pid=os.getpid(), role="main")
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    for number in range(2):
        context.Process(target=work, args=(tasks, results), name=f"work-{number}", daemon=True).start()
    tasks.put(0)
    say(event="settled")
    Feeder(tasks, results).run()


if __name__ == "__main__":
    main()
