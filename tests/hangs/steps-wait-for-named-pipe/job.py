"""Steps of a night, each a program of its own, which wait for the files of those before them."""
import json
import os
import subprocess
import sys
import time


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


STEPS = {"fetch": (), "clean": ("fetch",), "report": ("fetch", "clean")}


def run(name):
    truth("role", role=f"subprocess {os.path.basename(__file__)}")
    for other in STEPS[name]:
        while not os.path.exists(f"{other}.done"):
            time.sleep(0.25)
    if name == "fetch":
        truth("culprit")
        truth("settled")
    with open(f"{name}.log", "w") as log:  # CULPRIT
        log.write("done\n")
    os.rename(f"{name}.log", f"{name}.done")


def schedule():
    truth("root")
    truth("role", role="main")
    os.mkfifo("fetch.log")
    running = {name: subprocess.Popen([sys.executable, __file__, name]) for name in STEPS}
    while running:
        running = {name: step for name, step in running.items() if step.poll() is None}
        time.sleep(0.2)


if __name__ == "__main__":
    run(sys.argv[1]) if sys.argv[1:] else schedule()
