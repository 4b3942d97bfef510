import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def resize(tasks, results):
    say("role", role="worker")
    while (name := tasks.get()) is not None:
        results.put((name, hash(name) % 997))


def main():
    say("root")
    say("role", role="main")
    names = [f"img{n:04}.jpg" for n in range(200)]
    tasks, results = mp.Queue(8), mp.Queue(4)
    workers = [mp.Process(target=resize, args=(tasks, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    say("culprit")
    say("settled")
    for name in names:
        tasks.put(name)  # CULPRIT
    for _ in workers:
        tasks.put(None)
    sizes = dict(results.get() for _ in names)
    for worker in workers:
        worker.join()
    print(len(sizes))


if __name__ == "__main__":
    main()
