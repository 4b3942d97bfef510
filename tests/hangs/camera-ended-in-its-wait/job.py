import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def record(frames, stop, up):
    say("role", role="process record")
    up.set()
    while not stop.wait(3600):
        frames.put(b"frame")


def encode(frames, stop):
    say("role", role="process encode")
    say("waiter")
    while not stop.is_set():
        frames.get()


class Studio:
    def __init__(self):
        self.frames, self.stop, up = mp.Queue(), mp.Event(), mp.Event()
        self.camera = mp.Process(target=record, args=(self.frames, self.stop, up))
        self.encoder = mp.Process(target=encode, args=(self.frames, self.stop), daemon=True)
        self.camera.start()
        self.encoder.start()
        up.wait()

    def unplug(self):
        time.sleep(0.5)
        self.camera.terminate()
        self.camera.join()
        say("culprit", pid=self.camera.pid, thread="MainThread", dead=True)

    def close(self):
        say("settled")
        self.stop.set()
        self.frames.put(None)


def main():
    say("root")
    say("role", role="main")
    studio = Studio()
    studio.unplug()
    studio.close()


if __name__ == "__main__":
    main()
