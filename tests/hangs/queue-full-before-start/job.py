import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def write(results):
    say("role", role="process writer")
    while True:

        result = results.get()
        if result is None:
            return
        print(result)


def work(tasks, results):
    while (task := tasks.get()) is not None:
        results.put(task * task)


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("spawn")
    tasks, results = ctx.Queue(16), ctx.Queue()
    ctx.Process(target=write, args=(results,)).start()
    for task in range(100):
        if task == 16:
            say("culprit", thread="MainThread"), say("settled")
        tasks.put(task)  # CULPRIT
    workers = [ctx.Process(target=work, args=(tasks, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        tasks.put(None)
    for worker in workers:
        worker.join()
    results.put(None)



if __name__ == "__main__":
    main()
