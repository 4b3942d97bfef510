import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def measure(number, results):
    say("role", role=f"process measure-{number}")
    if number == 2:
        say("culprit", thread="MainThread", dead=True)
    results.put(number * 0.5)
    if number == 2:
        os._exit(0)  # the library it used does not end cleanly


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    results = ctx.Queue()
    for number in range(3):
        # One after the other: they would disturb each other.
        process = ctx.Process(target=measure, args=(number, results))
        process.start()
        process.join()
    say("settled")
    total = 0.0
    for _ in range(3):




        total += results.get()
    print(total)


if __name__ == "__main__":
    main()
