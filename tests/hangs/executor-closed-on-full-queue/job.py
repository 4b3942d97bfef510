import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import queue
from concurrent.futures import ThreadPoolExecutor


def decode(clip, frames):
    for number in range(500):
        frames.put((clip, number))


def first_frames(clips, count):
    frames, kept = queue.Queue(maxsize=16), []
    with ThreadPoolExecutor(2, thread_name_prefix="decode") as pool:  # CULPRIT
        for clip in clips:
            pool.submit(decode, clip, frames)
        while len(kept) < count:
            kept.append(frames.get())
        say("culprit", thread="MainThread")
        say("settled")
    return kept


def main():
    say("root")
    say("role", role="main")
    print(len(first_frames(range(4), 100)))


if __name__ == "__main__":
    main()
