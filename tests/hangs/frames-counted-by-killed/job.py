import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import select
import signal

FRAMES = os.eventfd(0)


def capture():
    say("role", role="process capture")
    os.eventfd_write(FRAMES, 1)
    os.close(FRAMES)
    say("culprit", thread="MainThread", dead=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    say("root")
    say("role", role="main")
    camera = mp.Process(target=capture, name="capture")
    camera.start()
    poll = select.poll()
    poll.register(FRAMES, select.POLLIN)
    for number in range(3):
        poll.poll()
        os.eventfd_read(FRAMES)
        say("settled")
        print(number)
    camera.join()


if __name__ == "__main__":
    main()
