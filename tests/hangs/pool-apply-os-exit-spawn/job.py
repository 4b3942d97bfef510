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


def decode(file):
    """A library in C that ends the process when a file is damaged."""
    if file == "damaged":
        say("culprit", thread="MainThread", dead=True), say("settled")
        os._exit(1)
    return len(file)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("spawn")
    pool = ctx.Pool(2, initializer=name, initargs=(ctx.Value("i", 0),))
    results = [pool.apply_async(decode, (file,)) for file in ("a", "damaged", "b")]
    for result in results:








        print(result.get())
    pool.close()


if __name__ == "__main__":
    main()
