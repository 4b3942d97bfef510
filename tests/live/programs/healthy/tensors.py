"""A producer hands tensors in shared memory to a consumer, which answers over a connection."""

import time

import torch
import torch.multiprocessing as mp
from orders import compute, ordered, say


def produce(tensors, answers):
    torch.set_num_threads(1)
    while True:
        if ordered("silent"):
            time.sleep(1 << 20)  # WRONG silent
        tensors.put(torch.full((256,), float(compute(2000) % 7)))
        answers.recv()


def consume(tensors, answers):
    torch.set_num_threads(1)
    taken = 0
    while True:
        tensor = tensors.get()
        if ordered("unread"):
            time.sleep(1 << 20)  # WRONG unread
        answers.send(float(tensor.sum()) + compute(2000))
        taken += 1
        if taken == 50:
            say(ready=0)


def main():
    fork = mp.get_context("fork")
    tensors, (ours, theirs) = fork.Queue(2), fork.Pipe()
    producer = fork.Process(target=produce, args=(tensors, ours), name="producer")
    consumer = fork.Process(target=consume, args=(tensors, theirs), name="consumer")
    producer.start()
    consumer.start()
    say(producer=producer.pid, consumer=consumer.pid)
    producer.join()
    consumer.join()


if __name__ == "__main__":
    main()
