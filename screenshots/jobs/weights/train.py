"""A trainer sends its weights to two samplers after every step; one of them keeps all it ever got.

The weights lie in the memory of `tests.ipc.standin`, which takes the place of CUDA's: queues, handles and refcounts are real.
"""

import json
import os
import tempfile
import time

import torch.multiprocessing as mp

import mpmon.shim
from tests.ipc import standin

NUMBERS = 4 << 20
"""Of 4 bytes, in one tensor."""
STEP_S = 1.5
STEPS_TO_SEE = 60


def tell(event):
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"event": event, "pid": os.getpid()}) + "\n")


def sample(weights):
    tell("sampler")
    while True:
        newest = weights.get()
        time.sleep(STEP_S / 2)
        del newest


def sample_and_log(weights):
    tell("sampler")
    log = []
    while True:
        log.append(weights.get())
        time.sleep(STEP_S / 2)


def publish(weights, queues):
    for queue in queues:
        queue.put(weights)


def train(queues):
    for step in range(10_000):
        time.sleep(STEP_S)
        publish(standin.Tensor(NUMBERS), queues)
        tell("settled" if step < STEPS_TO_SEE else "stuck")


def main():
    tell("root")
    queues = [mp.Queue(4), mp.Queue(4)]
    for target, queue in zip([sample, sample_and_log], queues):
        mp.Process(target=target, args=(queue,), daemon=True).start()
    train(queues)


if __name__ == "__main__":
    os.environ["MPMON_RUN_DIR"] = tempfile.gettempdir()
    standin.install()
    mpmon.shim.install()
    main()
