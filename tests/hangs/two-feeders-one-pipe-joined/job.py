import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def collect(name, paths):
    say("role", role=f"process {name}")
    for _ in range(40):
        paths.put(bytes(20_000))


def main():
    say("root")
    say("role", role="main")
    paths = mp.Queue()
    actors = [mp.Process(target=collect, args=(name, paths), name=name) for name in ("left", "right")]
    for actor in actors:
        actor.start()
    say("culprit")
    say("settled")
    for actor in actors:
        actor.join()  # CULPRIT
    print(sum(len(paths.get()) for _ in range(80)))


if __name__ == "__main__":
    main()
