import json
import multiprocessing
import os
import subprocess
import sys

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def main():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(abs, [1, 2])
        say("settled")
        for line in sys.stdin:
            print(pool.apply(len, (line,)))


if sys.argv[1:]:
    say("root")
    say("role", role="main")
    main()
else:
    # Whoever has the other end starts the job, and is not part of it.
    subprocess.Popen([sys.executable, "job.py", "main"], stdin=subprocess.PIPE).wait()
