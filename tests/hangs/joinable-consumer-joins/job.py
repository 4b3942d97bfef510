import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def consume(number, tasks, results):
    say("role", role=f"process consumer-{number}")
    written = 0
    while True:





        task = tasks.get()
        if task == "flush":
            say("culprit", thread="MainThread"), say("settled")
            # Until all tasks are done, this one too.
            tasks.join()  # CULPRIT
            results.put(written)
        written += 1
        tasks.task_done()


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    tasks, results = ctx.JoinableQueue(), ctx.SimpleQueue()
    consumers = [ctx.Process(target=consume, args=(number, tasks, results)) for number in range(2)]
    for consumer in consumers:


        consumer.start()
    for task in ("a", "b", "flush"):
        tasks.put(task)
    # How many were written.
    print(results.get())


if __name__ == "__main__":
    main()
