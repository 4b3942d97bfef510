import ctypes
import json
import multiprocessing as mp
import os
import resource


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def serve(number, tasks):
    say("role", role=f"pool worker {number}")
    while True:



        task = tasks.recv()
        if task == "corrupt":
            say("culprit", thread="MainThread", dead=True), say("settled")
            ctypes.string_at(0)  # a decoder in C
        tasks.send(len(task))


def main():
    say("root"), say("role", role="main")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctx = mp.get_context("fork")
    pipes = [ctx.Pipe() for _ in range(3)]
    for number, (_, theirs) in enumerate(pipes):


        ctx.Process(target=serve, args=(number, theirs)).start()
    # Whoever was forked later has the ends of those before, too.
    for (ours, _), task in zip(pipes, ("a.jpg", "corrupt", "b.jpg")):
        ours.send(task)
    connections = [ours for ours, _ in pipes]
    # In order; the second of them does not answer.

    print([connection.recv() for connection in connections])


if __name__ == "__main__":
    main()
