"""CUDA memory through a queue, with the stand-in; the shim as the caller wants it, which with `unhurried` keeps records long.

`pickle`: what such a tensor is pickled to.  Else a producer and a consumer that do as they are told.
"""

import gc
import multiprocessing
import os
import pickletools
import sys
import threading
from multiprocessing.reduction import ForkingPickler

from common import say, wait_for_word

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

import torch

from tests.ipc import standin

standin.install()
if "shim" in sys.argv:
    import mpmon.shim

    mpmon.shim.install()
if "unhurried" in sys.argv:
    import mpmon.shim.transfers

    # What is over is looked for after the first transfer, and never again without being asked for.
    mpmon.shim.transfers.CHECK_NS = 1 << 62


def pickled():
    queue = multiprocessing.SimpleQueue()
    buffer = bytes(ForkingPickler.dumps(standin.Tensor(4)))
    for opcode, argument, _ in pickletools.genops(buffer):
        is_name = isinstance(argument, str) and argument.replace("_", "").replace(".", "").isalpha()
        print(opcode.name, argument if is_name else "")
    assert queue.empty()


def consume(queue, answers):
    """Keep what comes; `drop` lets go of all of it, `end` ends."""
    kept = []
    while True:
        item = queue.get()  # GET
        if item == "end":
            return
        if item == "drop":
            kept.clear()
            gc.collect()
        else:
            kept.append(item)
        del item
        answers.put(len(kept))


def share_while_counts_are_read(kept):
    """The next time that the shim reads them, another thread shares before it can look at them."""
    pread = os.pread
    kept.append(standin.Tensor(64))

    def read_and_wait(*arguments):
        os.pread = pread
        counts = pread(*arguments)
        other = threading.Thread(target=kept[-1]._typed_storage()._share_cuda_)
        other.start()
        other.join()
        return counts

    os.pread = read_and_wait


def produce(queue, answers):
    """By a word a line: `put` a new tensor, `again` the first one, `forget` all, `drop` at the consumer, `fill`, `collect`."""
    kept = []
    while word := wait_for_word():
        if word == "put":
            kept.append(standin.Tensor(256))
            queue.put(kept[-1])  # PUT
        elif word == "again":
            queue.put(kept[0])
        elif word == "forget":
            kept.clear()
            gc.collect()
        elif word == "collect":
            torch.cuda.ipc_collect()
        elif word == "share":
            kept.append(standin.Tensor(64))
            kept[-1]._typed_storage()._share_cuda_()  # SHARE
        elif word == "meanwhile":
            share_while_counts_are_read(kept)
            torch.cuda.ipc_collect()
        elif word == "many":
            one = standin.Tensor(1)
            for _ in range(standin.SLOTS + 50):
                one._typed_storage()._share_cuda_()
                standin.PRODUCER.refcounter and standin.PRODUCER.refcounter.counts.zero_()
        else:
            queue.put(word)
        waits = word in ("put", "again", "drop")
        say(done=word, answer=answers.get() if waits else None)
        if word == "end":
            return


def main(method):
    context = multiprocessing.get_context(method)
    queue, answers = context.Queue(), context.SimpleQueue()
    child = context.Process(target=consume, args=(queue, answers))
    child.start()
    say(child=child.pid)
    produce(queue, answers)
    child.join()


if __name__ == "__main__":
    pickled() if sys.argv[1] == "pickle" else main(sys.argv[1])
