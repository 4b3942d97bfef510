import json, multiprocessing as mp, os, sqlite3, tempfile, time

from filelock import FileLock


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def open_store(folder):
    return sqlite3.connect(f"{folder}/index.db", timeout=3600, isolation_level=None), FileLock(f"{folder}/blobs.lock")


def add(folder, met):
    truth("role", role="process add")
    index, blobs = open_store(folder)
    with blobs:
        met.wait()
        truth("culprit")
        index.execute("begin immediate")  # CULPRIT


def prune(folder, met):
    truth("role", role="process prune")
    index, blobs = open_store(folder)
    index.execute("begin immediate")
    met.wait()
    truth("culprit")
    truth("settled")
    with blobs:  # CULPRIT
        index.execute("delete from blob")


def count(folder, shown):
    truth("role", role="process count")
    index, _ = open_store(folder)
    while True:
        shown.value = index.execute("select count(*) from blob").fetchone()[0]
        time.sleep(0.5)


def main():
    truth("root")
    truth("role", role="main")
    context, folder = mp.get_context("fork"), tempfile.mkdtemp()
    open_store(folder)[0].execute("create table blob (name text)")
    met, shown = context.Barrier(2), context.Value("q", 0)
    workers = [context.Process(target=f, args=(folder, x)) for f, x in ((add, met), (prune, met), (count, shown))]
    for worker in workers:
        worker.start()
    looks = 0
    while workers[0].is_alive():
        workers[0].join(1)
        looks += 1 + shown.value


if __name__ == "__main__":
    main()
