import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def detect(boxes, feedback):
    say("role", role="process detector"), say("culprit", thread="MainThread", all=True)
    for frame in range(100):
        crowd = 40 if frame == 7 else 2
        for box in range(crowd):


            boxes.put((frame, box))  # CULPRIT
        for _ in range(crowd):
            feedback.get()


def track(boxes, feedback):
    say("role", role="process tracker"), say("culprit", thread="MainThread", all=True)
    answered = 0
    while True:
        box = boxes.get()
        # 14 boxes of calm frames, and as many answers as fit of the crowded one.
        answered += 1
        if answered == 14 + 8 + 1:
            say("settled")

        feedback.put(box)  # CULPRIT


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    boxes, feedback = ctx.Queue(8), ctx.Queue(8)
    stages = [ctx.Process(target=stage, args=(boxes, feedback)) for stage in (detect, track)]
    for stage in stages:
        # The tracker never ends by itself.

        stage.start()
    for stage in stages:
        stage.join()


if __name__ == "__main__":
    main()
