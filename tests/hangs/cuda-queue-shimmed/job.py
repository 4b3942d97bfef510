"""The consumer takes one tensor of the GPU and waits until the producer says that all are there; the queue holds two."""
import json, os

import torch
import torch.multiprocessing as mp


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def consume(queue, complete):
    truth("role", role="consumer")
    first = queue.get()
    truth("culprit")
    truth("settled")
    complete.wait()  # CULPRIT
    while True:
        first += queue.get()


def produce(queue, complete):
    truth("role", role="producer")
    for number in range(8):
        queue.put(torch.full((1 << 20,), float(number), device="cuda"))
    complete.set()


def main():
    truth("root")
    context = mp.get_context("spawn")
    queue, complete = context.Queue(2), context.Event()
    workers = [context.Process(target=target, args=(queue, complete)) for target in (produce, consume)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
