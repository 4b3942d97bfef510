import json
import multiprocessing as mp
import os


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("spawn")


def simulate(number, weights, results):
    say("role", role=f"process simulator-{number}")
    while True:
        results.put(sum(weights.recv()) + number)


def summarize(rows):
    say("role", role="process summary")
    while (row := rows.get()) is not None:
        print(row)


def main():
    say("root")
    say("role", role="main")
    results, rows, ends = CTX.SimpleQueue(), CTX.SimpleQueue(), []
    CTX.Process(target=summarize, args=(rows,)).start()
    for number in range(2):
        near, far = CTX.Pipe()
        ends.append(near)
        CTX.Process(target=simulate, args=(number, far, results)).start()
    weights = [1.0] * 4
    while True:
        for end in ends:
            end.send(weights)
        rows.put(max(results.get() for _ in ends))
        if len(weights) == 1:
            say("culprit")
            say("settled")
        weights = weights[: len(weights) - 1] or [1 / 0]


if __name__ == "__main__":
    main()
