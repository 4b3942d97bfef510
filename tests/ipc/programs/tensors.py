"""Tensors in shared memory from a producer to this process, by a word a line: `send 2 4096`, `forget`, `take 1`, `drop`."""

import gc
import json
import os
import sys

import torch
from torch import multiprocessing


def say(**facts):
    print(json.dumps(facts), flush=True)


def produce(queue, orders, answers, strategy):
    multiprocessing.set_sharing_strategy(strategy)
    kept = []
    while True:
        word, *numbers = orders.get()
        if word == "send":
            count, size = numbers
            for _ in range(count):
                kept.append(torch.ones(size, dtype=torch.uint8))
                queue.put(kept[-1])
        else:
            kept.clear()
            gc.collect()
        answers.put(word)


def main(strategy, method):
    multiprocessing.set_sharing_strategy(strategy)
    context = multiprocessing.get_context(method)
    queue, orders, answers = context.Queue(), context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=produce, args=(queue, orders, answers, strategy), daemon=True)
    child.start()
    say(child=child.pid, queue=f"pipe:{os.fstat(queue._reader.fileno()).st_ino}")
    kept = []
    while words := sys.stdin.readline().split():
        if words[0] in ("send", "forget"):
            orders.put((words[0], *map(int, words[1:])))
            answers.get()
            # Its feeder thread may have sent nothing yet.
            queue._reader.poll(30)
        elif words[0] == "take":
            kept += [queue.get() for _ in range(int(words[1]))]
        else:
            kept.clear()
            gc.collect()
        say(done=words)
    child.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
