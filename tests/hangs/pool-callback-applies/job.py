import json
import multiprocessing as mp
import os


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
    ctx = mp.get_context("fork")

    pool = ctx.Pool(2, initializer=name, initargs=(ctx.Value("i", 0),))
    answers = []

    def follow(result):
        """Asks at once for what depends on the first result."""
        say("culprit", thread="Thread-3 (_handle_results)")
        say("settled")
        # The pool's only thread for results runs this, and waits here for one.
        answers.append(pool.apply(square, (result,)))  # CULPRIT

    first = pool.apply_async(square, (3,), callback=follow)
    second = pool.apply_async(square, (4,))
    first.get(), print(second.get())


if __name__ == "__main__":
    say("root"), say("role", role="main"), main()
