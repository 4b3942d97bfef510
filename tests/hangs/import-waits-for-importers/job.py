import json
import multiprocessing as mp
import os

CTX = mp.get_context("fork")


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

def text_rows(rows):
    say("role", role="process texts")
    for i in range(200):
        rows.put(("text", i, len(f"caption {i}")))
    rows.put(("text", None, None))


def image_rows(rows):
    say("role", role="process images")
    say("culprit", thread="MainThread")
    say("culprit", thread="backend_0")
    settle(2)
    import backends

    for i in range(200):
        rows.put(("image", i, backends.decode(f"img-{i}.{'jpg' if i % 3 else 'npy'}")))
    rows.put(("image", None, None))


def build(rows):
    table, open_kinds = {}, {"text", "image"}
    while open_kinds:
        kind, i, value = rows.get()
        if i is None:
            open_kinds.discard(kind)
        else:
            table.setdefault(i, {})[kind] = value
    return table


def main():
    say("root")
    say("role", role="main")
    rows = CTX.Queue()
    for target in (text_rows, image_rows):
        CTX.Process(target=target, args=(rows,), daemon=True).start()
    say("waiter")
    settle(2)
    print(len(build(rows)), "rows")


if __name__ == "__main__":
    main()
