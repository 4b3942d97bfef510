"""A reactor that waits for a converter's output, after one of its threads has done something."""

from __future__ import annotations

import json
import os
import sys

from twisted.internet import defer, protocol, reactor, threads

CONVERT = "import time, sys; data = sys.stdin.read(); time.sleep(60); print(len(data))"


def told(**fact: object) -> None:
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"pid": os.getpid(), **fact}) + "\n")


class Converter(protocol.ProcessProtocol):
    def __init__(self) -> None:
        self.done = defer.Deferred()

    def connectionMade(self) -> None:
        self.transport.write(b"page " * 1000)
        self.transport.closeStdin()

    def processEnded(self, reason: object) -> None:
        self.done.callback(reason)


@defer.inlineCallbacks
def convert():
    yield threads.deferToThread(sum, range(1000))
    converter = Converter()
    process = reactor.spawnProcess(converter, sys.executable, [sys.executable, "-c", CONVERT])
    told(event="role", pid=process.pid, role="subprocess python3.11 -c")
    told(event="settled")
    yield converter.done
    reactor.stop()


if __name__ == "__main__":
    told(event="root")
    told(event="role", role="main")
    reactor.callWhenRunning(convert)
    reactor.run()
