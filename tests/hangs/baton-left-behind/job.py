import json
import multiprocessing
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def build(folder):
    from torch.utils.file_baton import FileBaton

    baton = FileBaton(os.path.join(folder, "lock"))
    if not baton.try_acquire():
        baton.wait()
        return
    say("culprit", thread="MainThread", dead=True)
    os.kill(os.getpid(), 9)


def beat():
    while True:
        print("alive", flush=True)
        time.sleep(1)


def rank(k, folder, built):
    say("role", role=f"process builder-{k}")
    if k:
        say("waiter")
    threading.Thread(target=beat, daemon=True).start()
    time.sleep(0.5 * k)
    build(folder)
    built.put(k)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("fork")
    folder, built = os.path.join("/tmp", f"build-{os.getpid()}"), context.Queue()
    os.mkdir(folder)
    for k in range(3):
        context.Process(target=rank, args=(k, folder, built), name=f"builder-{k}", daemon=True).start()
    threading.Timer(4.0, say, ("settled",)).start()
    for _ in range(3):
        built.get()


if __name__ == "__main__":
    main()
