import json
import multiprocessing as mp
import os
from concurrent.futures import ProcessPoolExecutor

EXECUTOR = None


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def length(text):
    return len(text)


def score(number, texts):
    say("role", role=f"process scorer-{number}")
    say("culprit", thread="MainThread")
    futures = [EXECUTOR.submit(length, text) for text in texts]
    if number == 1:
        say("settled")



    return sum([future.result() for future in futures])  # CULPRIT


def main():
    global EXECUTOR
    say("root")
    say("role", role="main")
    EXECUTOR = ProcessPoolExecutor(2, mp_context=mp.get_context("spawn"))
    print(list(EXECUTOR.map(length, ["a", "bc"])))
    scorers = [mp.get_context("fork").Process(target=score, args=(n, ["x" * n] * 4)) for n in range(2)]
    for scorer in scorers:

        scorer.start()
    for scorer in scorers:
        scorer.join()


if __name__ == "__main__":
    main()
