import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import subprocess
import sys
import threading

STEPS = "import time\nfor step in range(20):\n    print('loss', 1 / (step + 1), flush=True)\n    time.sleep(0.05)\n"


class Pump(threading.Thread):
    def __init__(self, stream):
        super().__init__(name="pump")
        self.stream, self.losses = stream, []

    def run(self):
        say("culprit", thread="pump")
        for line in iter(self.stream.readline, ""):  # CULPRIT
            words = line.split()  # CULPRIT
            if len(words) == 2:  # CULPRIT
                self.losses.append(float(words[1]))


def main():
    say("root")
    say("role", role="main")
    child = subprocess.Popen([sys.executable, "-c", STEPS], stdout=subprocess.PIPE)
    pump = Pump(child.stdout)
    pump.start()
    child.wait()
    say("settled")
    pump.join()
    print(min(pump.losses))


main()
