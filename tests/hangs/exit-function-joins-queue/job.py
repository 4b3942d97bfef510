"""A report is written by a thread; at exit, its queue is drained."""
import atexit
import json
import os
import queue
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Report:
    def __init__(self, path):
        self.rows = queue.Queue()
        self.file = open(path, "w")
        threading.Thread(target=self.write, name="report", daemon=True).start()
        atexit.register(self.close)

    def write(self):
        while True:
            row = self.rows.get()
            try:
                text = "%s took %.2f s\n" % row
            except TypeError:
                continue
            self.file.write(text)
            self.rows.task_done()

    def close(self):
        truth("culprit", thread="MainThread")
        truth("settled")
        self.rows.join()  # CULPRIT
        self.file.close()


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    report = Report("report.txt")
    for number in range(20):
        report.rows.put((f"step {number}", number / 7))
    report.rows.put(("all", None))
