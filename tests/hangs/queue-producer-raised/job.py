import json
import multiprocessing as mp
import os



def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(items):
    for item in range(3):
        items.put(item)
    say("culprit", thread="MainThread", dead=True), say("settled")
    items.close(), items.join_thread()
    raise ValueError(item)


def consume(items):
    say("role", role="process consumer")
    for _ in range(4):
        items.get()


say("root"), say("role", role="main")
ctx = mp.get_context("fork")
queue = ctx.Queue()
producer = ctx.Process(target=produce, args=(queue,), name="producer")
consumer = ctx.Process(target=consume, args=(queue,), name="consumer")

for process in (producer, consumer):
    process.start()
for process in (producer,):
    # Whether it has failed is not asked.
    process.join()
consumer.join()
