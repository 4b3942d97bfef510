import json
import os
import signal
import tempfile

import torch.multiprocessing
from torch.utils.file_baton import FileBaton


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def build(path):
    say("culprit", dead=True)
    FileBaton(path).try_acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def rank(number, path):
    say("role", role=f"rank {number}")
    say("settled")
    baton = FileBaton(path)
    if not baton.try_acquire():
        baton.wait()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    path = os.path.join(tempfile.mkdtemp(), "lock")
    builder = torch.multiprocessing.get_context("spawn").Process(target=build, args=(path,))
    builder.start()
    builder.join()
    torch.multiprocessing.spawn(rank, args=(path,), nprocs=2)
