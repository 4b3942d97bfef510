import json
import os
import time
from multiprocessing import Pipe, Process


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def sink(records, theirs):
    theirs.close()
    say("role", role="process sink")
    written = 0
    with open("records", "w") as out:
        while True:
            try:
                out.write(records.recv())
            except EOFError:
                break
            written += 1
    print("wrote", written)


def monitor(orders):
    say("role", role="process monitor")
    while (order := orders.recv()) != "stop":  # CULPRIT
        print(order, os.getloadavg())


def main():
    say("root")
    say("role", role="main")
    records, to_sink = Pipe(duplex=False)
    writer = Process(target=sink, args=(records, to_sink), name="sink")
    orders, to_monitor = Pipe(duplex=False)
    watcher = Process(target=monitor, args=(orders,), name="monitor")
    writer.start()
    records.close()
    watcher.start()
    orders.close()
    for number in range(100):
        to_sink.send(f"{number}\n")
        if number % 40 == 0:
            to_monitor.send(f"record {number}")
            time.sleep(0.1)
    to_sink.close()
    say("culprit", pid=watcher.pid, thread="MainThread")
    say("waiter", pid=writer.pid)
    say("settled")
    writer.join()
    to_monitor.send("stop")
    watcher.join()


if __name__ == "__main__":
    main()
