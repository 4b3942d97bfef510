import json
import os
import sys
import time

import execnet


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


REMOTE = """
import time, zlib
while True:
    seconds = channel.receive()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        zlib.compress(b"x%d" % id(end) * 200_000, 9)
        time.sleep(0.05)
    channel.send(seconds)
"""


def main():
    say("root")
    say("role", role="main")
    gateways = [execnet.makegateway(f"popen//python={sys.executable}") for _ in range(2)]
    channels = [gateway.remote_exec(REMOTE) for gateway in gateways]
    for channel in channels:
        channel.send(0)
        channel.receive()
    time.sleep(15)
    channels[0].send(120)
    say("settled")
    print(channels[0].receive())


main()
