import json
import os

import telemetry


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def train(epochs):
    return sum(0.9**epoch for epoch in range(epochs))


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    telemetry.start()
    print(f"loss {train(3):.3f}")
    say("culprit", thread="MainThread")
    say("settled")
