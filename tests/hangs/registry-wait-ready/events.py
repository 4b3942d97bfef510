import json
import os

LOG = os.environ.get("CORPUS_TRUTH", os.devnull)


def say(event, **kw):
    fd = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def placed(n):
    """the last of n processes to say where it is also says that all are"""
    with open(LOG) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")
