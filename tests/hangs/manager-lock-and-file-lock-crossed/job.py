import json
import os
import fcntl
import multiprocessing as mp
import multiprocessing.managers
import time
from contextlib import contextmanager


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


class Ledger:
    """The file with all bookings."""

    def __init__(self, path="ledger.txt"):
        self.path = path

    @contextmanager
    def locked(self):
        with open(self.path, "a") as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # CULPRIT
            yield f


class Vault:
    """Cash, guarded by a lock on the manager."""

    def __init__(self, lock):
        self.lock = lock

    @contextmanager
    def opened(self):
        self.lock.acquire()  # CULPRIT
        try:
            yield
        finally:
            self.lock.release()


class Teller:
    def __init__(self, n, ledger, vault):
        self.n, self.ledger, self.vault = n, ledger, vault

    def deposit(self, amount):
        with self.ledger.locked() as f:
            self._pause()
            with self.vault.opened():
                f.write(f"+{amount}\n")

    def withdraw(self, amount):
        with self.vault.opened():
            self._pause()
            with self.ledger.locked() as f:
                f.write(f"-{amount}\n")

    def audit(self):
        time.sleep(0.5)
        say("waiter")
        settle(4)
        with self.vault.opened():
            return open(self.ledger.path).read()

    def _pause(self):
        time.sleep(0.7)  # the customer counts
        say("culprit", thread="MainThread")
        settle(4)


def teller_main(n, lock):
    say("role", role=f"process teller-{n}")
    t = Teller(n, Ledger(), Vault(lock))
    (t.deposit, t.withdraw, lambda _: t.audit())[n](50)


def start_manager():
    say("role", role="process manager")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    m = mp.managers.SyncManager(ctx=ctx)
    m.start(start_manager)
    lock = m.Lock()
    tellers = [ctx.Process(target=teller_main, args=(n, lock)) for n in range(3)]
    for t in tellers:
        t.start()
    for t in reversed(tellers):
        t.join()


if __name__ == "__main__":
    main()
