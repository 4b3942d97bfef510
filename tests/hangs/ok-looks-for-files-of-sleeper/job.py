import json
import multiprocessing
import os
import tempfile
import time

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(folder):
    say("role", role="process produce")
    for number in range(1000):
        with open(os.path.join(folder, str(number)), "w") as file:
            file.write("item")
        time.sleep(30)


say("root")
say("role", role="main")
folder = tempfile.mkdtemp()
multiprocessing.get_context("fork").Process(target=produce, args=(folder,), daemon=True).start()
say("settled")
while True:
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    time.sleep(0.25)
