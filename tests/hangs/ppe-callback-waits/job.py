import json
import multiprocessing as mp
import os
from concurrent.futures import ProcessPoolExecutor, wait


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def name(counter):
    with counter:
        counter.value += 1
        say("role", role=f"pool worker {counter.value}")


def square(number):
    return number * number


def main():
    ctx = mp.get_context("spawn")
    pool = ProcessPoolExecutor(2, mp_context=ctx, initializer=name, initargs=(ctx.Value("i", 0),))
    answers = []

    def again(future):
        """Asks at once for what depends on the first result."""
        say("culprit", thread="Thread-1")
        say("settled")


        answers.append(pool.submit(square, future.result()).result())  # CULPRIT

    futures = [pool.submit(square, number) for number in range(4)]
    futures[0].add_done_callback(again)
    # The others are never done: the executor's only thread for results is in `again`.
    wait(futures)


if __name__ == "__main__":
    say("root"), say("role", role="main"), main()
