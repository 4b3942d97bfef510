"""Every epoch is prepared by a process, and its shards are converted by programs that a handler of SIGCHLD clears away."""
import json
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time

CLEARED = {}


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def clear(*_):
    try:
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            CLEARED[ended[0]] = ended[1]
    except ChildProcessError:
        pass


def prepare(epoch):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    note("role", role=f"process prepare-{epoch}")
    time.sleep(0.5)


def train(epochs, losses):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    note("role", role="process trainer")
    note("waiter")
    while True:
        losses.put(1.0 / (1 + epochs.get()))


def prepared(epoch):
    process = mp.Process(target=prepare, args=(epoch,))
    process.start()
    if epoch == 1:
        note("culprit", thread="MainThread")
        note("settled")
    while process.is_alive():
        time.sleep(0.2)  # CULPRIT


def main():
    note("root")
    note("role", role="main")
    epochs, losses = mp.Queue(), mp.Queue()
    mp.Process(target=train, args=(epochs, losses), daemon=True).start()
    for epoch in range(100):
        prepared(epoch)
        epochs.put(epoch)
        print(epoch, losses.get(), flush=True)
        signal.signal(signal.SIGCHLD, clear)
        subprocess.Popen([sys.executable, "-c", "pass"])


if __name__ == "__main__":
    main()
