import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def picker(k, stock, changed, picked):
    say("role", role=f"process picker {k}")
    while True:
        with changed:
            while not stock.value:
                changed.wait()
            stock.value -= 1
        picked.put(k)


def main():
    say("root")
    say("role", role="main")
    changed, stock, picked = mp.Condition(), mp.Value("i", 0), mp.SimpleQueue()
    pickers = [mp.Process(target=picker, args=(k, stock, changed, picked), daemon=True) for k in range(3)]
    for process in pickers:
        process.start()
    time.sleep(1)
    pickers[0].terminate()
    pickers[0].join()
    say("culprit", thread="MainThread")
    say("culprit", pid=pickers[0].pid, thread="MainThread", dead=True)
    for process in pickers[1:]:
        say("waiter", pid=process.pid)
    say("settled")
    for _ in range(100):
        with changed:
            stock.value += 3
            changed.notify_all()  # CULPRIT
        print(picked.get())


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
