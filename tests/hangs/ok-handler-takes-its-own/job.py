"""Every epoch is prepared by a process, and its shards are converted by programs that a handler of SIGCHLD clears away, and no others."""
import json
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time

CONVERTERS = []


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def clear(*_):
    for converter in CONVERTERS:
        converter.poll()


def prepare(epoch):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    note("role", role=f"process prepare-{epoch}")
    time.sleep(40 if epoch == 1 else 0.5)


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
        note("settled")
    while process.is_alive():
        time.sleep(0.2)


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
        CONVERTERS.append(subprocess.Popen([sys.executable, "-c", "pass"]))


if __name__ == "__main__":
    main()
