import json
import multiprocessing
import os
import random
import time

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(queue):
    say("role", role="process produce")
    while True:
        began = time.time()
        while time.time() - began < 60:
            sum(random.random() for _ in range(2000))
            time.sleep(0.001)
        queue.put(1)


def consume(queue):
    say("role", role="process consume")
    while True:
        queue.get()


say("root")
say("role", role="main")
context = multiprocessing.get_context("fork")
queue = context.Queue()
consumer = context.Process(target=consume, args=(queue,))
producer = context.Process(target=produce, args=(queue,))
consumer.start()
producer.start()
say("settled")
producer.join()
