import json
import multiprocessing as mp
import os
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("fork")
LEDGER, ORDERS = CTX.Lock(), CTX.Queue(4)


def work(number):
    say("role", role=f"process worker-{number}")
    while True:
        with LEDGER:
            pass
        ORDERS.get()
        time.sleep(0.05)
        with LEDGER:
            pass


def place(orders):
    with LEDGER:
        for order in orders:
            if ORDERS.full():
                say("settled")
            ORDERS.put(order)  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("culprit")
    for number in range(3):
        CTX.Process(target=work, args=(number,), daemon=True).start()
    for count in (1, 2, 30):
        place(range(count))
        time.sleep(0.5)


main()
