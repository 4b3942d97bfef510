"""Blocks of CUDA memory from this process to its consumers, with the stand-in, by a line: `send 3 1048576`.

`blocks.py fork`: how its consumer starts; one of `spawn` counts devices as CONSUMER_DEVICES says. It lets go of the block
that it got last when it is sent SIGUSR1.
The shim is on where MPMON_RUN_DIR says where to.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import signal
import sys
from multiprocessing.reduction import ForkingPickler

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

import torch

import mpmon.shim
from tests.ipc import standin

standin.install()
if "MPMON_RUN_DIR" in os.environ:
    mpmon.shim.install()


def say(**facts):
    print(json.dumps(facts), flush=True)


def refuse(*_):
    """As a receiver without the right to trace its sender."""
    raise RuntimeError("pidfd_getfd: Operation not permitted")


class Message:
    """What is pickled already: each that gets it builds it anew."""

    def __init__(self, tensor):
        self.text = bytes(ForkingPickler.dumps(tensor))


def consume(queue, onward, answers):
    """Keep what comes, until a word says otherwise."""
    kept = []
    signal.signal(signal.SIGUSR1, lambda *_: kept.pop())
    while True:
        item = None
        try:
            item = queue.get()
        except RuntimeError:
            answers.put("refused")
            continue
        if item == "drop":
            kept.clear()
            gc.collect()
        elif item == "onward":
            onward.put(standin.Tensor.received(4))  # ONWARD
        elif item == "refuse":
            torch.UntypedStorage._new_shared_cuda = staticmethod(refuse)
        elif item == "events":
            standin.EVENT = bytearray(b"e" * (64 << 10))
        else:
            kept.append(ForkingPickler.loads(item.text) if isinstance(item, Message) else item)
        answers.put(len(kept))


def main(method):
    context = multiprocessing.get_context(method)
    queue, onward, answers = context.Queue(), context.Queue(), context.SimpleQueue()
    own = os.environ.get("CUDA_VISIBLE_DEVICES")
    if theirs := os.environ.get("CONSUMER_DEVICES"):
        os.environ["CUDA_VISIBLE_DEVICES"] = theirs
    child = context.Process(target=consume, args=(queue, onward, answers), daemon=True)
    child.start()
    if own:
        os.environ["CUDA_VISIBLE_DEVICES"] = own
    say(pid=os.getpid(), child=child.pid, queue=f"pipe:{os.fstat(onward._reader.fileno()).st_ino}")
    kept = []
    while words := sys.stdin.readline().split():
        if words[0] == "send":
            for _ in range(int(words[1])):
                kept.append(standin.Tensor(int(words[2]) // 4))
                queue.put(kept[-1])  # SEND
                answers.get()
        elif words[0] == "churn":
            for item in (*(standin.Tensor(64) for _ in range(int(words[1]))), "drop"):
                queue.put(item)
                answers.get()
        elif words[0] == "twice":
            message = Message(standin.Tensor(64))
            for _ in range(2):
                queue.put(message)
                answers.get()
        elif words[0] == "forget":
            kept.clear()
            gc.collect()
            torch.cuda.ipc_collect()
        elif words[0] == "hold":
            # PyDLL calls a function of C without giving the GIL back.
            ctypes.PyDLL(None).pause()
        elif words[0] == "lambda":
            queue.put(lambda: None)  # LAMBDA
        elif words[0] == "share":
            kept.append(standin.Tensor(64))
            kept[-1]._typed_storage()._share_cuda_()  # SHARE
        else:
            queue.put(words[0])
            answers.get()
        say(done=words)


if __name__ == "__main__":
    main(*sys.argv[1:])
