import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def transfer(name, first, second, both):
    say("role", role=f"process {name}"), say("culprit", thread="MainThread", all=True)
    with first:
        both.wait(), say("settled")

        with second:  # CULPRIT
            print(name)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("spawn")
    manager = ctx.Manager()
    here, there, both = manager.Lock(), manager.Lock(), ctx.Barrier(2)
    transfers = [
        ctx.Process(target=transfer, args=("debit", here, there, both)),
        ctx.Process(target=transfer, args=("credit", there, here, both)),
    ]
    for process in transfers:
        process.start()
    for process in transfers:

        process.join()


if __name__ == "__main__":
    main()
