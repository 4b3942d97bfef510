"""A build tool starts a monitor in the background, which prints to the tool's output; who runs the tool reads that output."""
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def note(event, **more):
    with open(os.environ.get("CORPUS_TRUTH", os.devnull), "a") as truth:
        truth.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


class Monitor:
    def __init__(self):
        self.seen = 0.0

    def watch(self):
        note("role", role="subprocess")
        note("culprit", thread="MainThread")
        note("settled")
        while True:
            self.seen = time.time()
            time.sleep(4)  # CULPRIT


def build(step):
    done = subprocess.run([sys.executable, __file__, "tool", step], capture_output=True, text=True, check=True)
    return done.stdout.split()


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    with ThreadPoolExecutor(1, thread_name_prefix="build") as pool:
        print(list(pool.map(build, ["fetch", "watch", "pack"])))


def tool(step):
    if step == "watch":
        subprocess.Popen([sys.executable, __file__, "monitor"])
    print(step, "done")


if __name__ == "__main__":
    if sys.argv[1:2] == ["tool"]:
        tool(sys.argv[2])
    elif sys.argv[1:] == ["monitor"]:
        Monitor().watch()
    else:
        main()
