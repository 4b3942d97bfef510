import json
import os
import threading

FULL = threading.Event()


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Registry:
    def __init__(self):
        self.lock = threading.Lock()
        self.names = []

    def add(self, name):
        with self.lock:
            self.names.append(name)
            if len(self.names) > 3:

                self.evict()

    def evict(self):
        FULL.set()
        say("settled")
        with self.lock:  # CULPRIT
            self.names.pop(0)


def main():
    registry, names = Registry(), [str(number) for number in range(8)]
    threading.Thread(target=lambda: [registry.add(name) for name in names], name="registrar").start()
    FULL.wait()
    say("culprit", thread="registrar")
    with registry.lock:
        print(registry.names)


if __name__ == "__main__":
    say("root"), say("role", role="main"), main()
