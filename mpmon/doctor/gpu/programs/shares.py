"""A producer and a consumer of CUDA memory that obey commands; answers each command line with a line of JSON.

    shares about TENSORS            the version of torch
    shares METHOD STRATEGY TENSORS  the start method of both, and torch's sharing strategy for CPU tensors

TENSORS is the module that creates tensors: `mpmon.doctor.gpu.programs.cuda`, or a stand-in for it.  The process that reads
the commands has neither torch nor a context, so it survives when the producer is killed.  The queue shim is on if
MPMON_RUN_DIR is set.

`send COUNT BYTES`, `again` what was sent first, `twice BYTES` one pickled message, `post BYTES` without waiting for its
receiver, `share BYTES` by hand and to nobody; `drop` at the consumer, `forget` at the producer, `collect`, `idle`; `end`.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import pickle
import sys
from multiprocessing.queues import Queue, SimpleQueue
from multiprocessing.reduction import ForkingPickler
from typing import Any

import mpmon.shim

if "MPMON_RUN_DIR" in os.environ:
    mpmon.shim.install()

Words = list[str]
Setting = tuple[str, str]
"""The module that creates tensors, and torch's sharing strategy for CPU tensors."""
Answers = SimpleQueue[dict[str, object]]


class Message:
    """An item that is already pickled: each receiver unpickles it anew."""

    def __init__(self, item: object) -> None:
        self._text = bytes(ForkingPickler.dumps(item))

    def built(self) -> object:
        """The item."""
        return pickle.loads(self._text)  # noqa: S301  we made it


def say(**facts: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(facts), flush=True)


def begin(tensors: str, strategy: str) -> Any:
    """Set up a process with torch; returns the module that creates tensors."""
    module = importlib.import_module(tensors)
    import torch.multiprocessing

    torch.multiprocessing.set_sharing_strategy(strategy)
    return module


def produce(
    setting: Setting, orders: SimpleQueue[Words], items: Queue[object], received: SimpleQueue[str], answers: Answers
) -> None:
    """Send what the commands say, and keep it until told to forget."""
    module = begin(*setting)
    kept: list[Any] = [module.tensor(64)]
    kept.clear()
    answers.put({"ready": "producer"})

    def put(item: object) -> str:
        items.put(item)  # SENT
        return received.get()

    while (words := orders.get())[0] != "end":
        said = ""
        if words[0] == "send":
            for _ in range(int(words[1])):
                kept.append(module.tensor(int(words[2])))
                said = put(kept[-1])
        elif words[0] == "again":
            said = put(kept[0])
        elif words[0] == "post":
            items.put(module.tensor(int(words[1])))
        elif words[0] == "share":
            kept.append(module.tensor(int(words[1])))
            kept[-1]._typed_storage()._share_cuda_()
        elif words[0] == "twice":
            message = Message(module.tensor(int(words[1])))
            said = put(message) or put(message)
        elif words[0] == "drop":
            said = put("drop")
        elif words[0] == "forget":
            kept.clear()
            gc.collect()
        elif words[0] == "collect":
            module.collect()
        answers.put({"done": words[0], "said": said, "allocated": module.allocated()})


def consume(setting: Setting, items: Queue[object], received: SimpleQueue[str], answers: Answers) -> None:
    """Keep what is received until told to drop it."""
    module = begin(*setting)
    kept: list[Any] = [module.tensor(64)]
    kept.clear()
    answers.put({"ready": "consumer"})
    while True:
        said = ""
        try:
            item = items.get()
            if item == "end":
                return
            if item == "drop":
                kept.clear()
                gc.collect()
            else:
                kept.append(item.built() if isinstance(item, Message) else item)
        except RuntimeError as problem:
            said = str(problem) or "refused"
        received.put(said)


def serve(method: str, strategy: str, tensors: str) -> None:
    """Start both, and pass on commands."""
    context: Any = multiprocessing.get_context(method)
    items: Queue[object] = context.Queue()
    orders, received, answers = context.SimpleQueue(), context.SimpleQueue(), context.SimpleQueue()
    setting = (tensors, strategy)
    producer = context.Process(target=produce, args=(setting, orders, items, received, answers), daemon=True)
    consumer = context.Process(target=consume, args=(setting, items, received, answers), daemon=True)
    producer.start()
    consumer.start()
    for _ in range(2):
        answers.get()
    say(producer=producer.pid, consumer=consumer.pid)
    for line in sys.stdin:
        words = line.split()
        orders.put(words)
        if words[0] != "end":
            say(**answers.get())
            continue
        items.put("end")
        producer.join()
        consumer.join()
        say(producer=producer.exitcode, consumer=consumer.exitcode)


if __name__ == "__main__":
    if sys.argv[1] == "about":
        say(torch=importlib.import_module(sys.argv[2]).version())
    else:
        serve(*sys.argv[1:])
