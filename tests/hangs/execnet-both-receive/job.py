import json
import os
import sys

import execnet


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


REMOTE = """
while True:
    options = channel.receive()
    if options is None:
        break
    channel.send(len(channel.receive()))
"""


def measure(gateway, files, options=None):
    channel = gateway.remote_exec(REMOTE)
    if options:
        channel.send(options)
    channel.send(files)
    return channel.receive()  # CULPRIT


def gateway():
    return execnet.makegateway(f"popen//python={sys.executable}")


def main():
    say("root")
    say("role", role="main")
    first, second = gateway(), gateway()
    print(measure(first, ["a", "b"], {"level": 2}))
    first.exit()
    say("culprit")
    say("culprit", pid=second.remote_exec("import os; channel.send(os.getpid())").receive())
    say("settled")
    print(measure(second, ["c"]))


main()
