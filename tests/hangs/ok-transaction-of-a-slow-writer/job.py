"""A ledger is closed in transactions that hold its lock; a report and the main thread wait for the close of a day, which takes long."""
import json
import os
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.days = []


class Transaction:
    def __init__(self, ledger):
        self.ledger = ledger

    def __enter__(self):
        self.ledger.lock.acquire()
        return self.ledger

    def __exit__(self, *_):
        self.ledger.lock.release()


def balance(day):
    total = 0
    for entry in range(60_000_000):
        total = (total * 31 + entry + day) % 1_000_003
        if entry % 4_000_000 == 0:
            truth("progress")
    return total


def close(ledger, opened):
    for day in range(20):
        with Transaction(ledger) as inside:
            opened.set()
            inside.days.append(balance(day))


def report(ledger):
    while True:
        with Transaction(ledger) as inside:
            print(len(inside.days), flush=True)


def main():
    truth("root")
    truth("role", role="main")
    ledger, opened = Ledger(), threading.Event()
    threading.Thread(target=close, args=(ledger, opened), daemon=True).start()
    opened.wait()
    threading.Thread(target=report, args=(ledger,), daemon=True).start()
    truth("settled")
    while len(ledger.days) < 20:
        with Transaction(ledger) as inside:
            print(sum(inside.days), flush=True)


if __name__ == "__main__":
    main()
