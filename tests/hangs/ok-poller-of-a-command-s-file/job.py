"""A worker polls for a file that a command makes after a while, and counts how often it looked."""

import json
import multiprocessing
import os
import subprocess
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(flag, event, results):
    say("role", role="process work")
    say("settled")
    subprocess.Popen(["sh", "-c", "sleep 35; touch made"])
    looks = 0
    while not os.path.exists("made"):
        looks += 1
        print("not yet", looks)
        time.sleep(0.3)
    results.put(True)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    flag, event, results = context.Value("i", 0), context.Event(), context.Queue()
    context.Process(target=work, args=(flag, event, results), daemon=True).start()
    print(results.get())


if __name__ == "__main__":
    main()
