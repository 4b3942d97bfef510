"""Workers stay until an event that the handler of SIGTERM in main sets."""

import json
import multiprocessing
import os
import signal
import socketserver
import threading


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def serve(stop):
    say("role", role="process serve")
    server = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    done = threading.Event()

    def finish(*_):
        stop.set()
        done.set()

    signal.signal(signal.SIGTERM, finish)
    for _ in range(2):
        context.Process(target=serve, args=(stop,)).start()
    say("settled")
    done.wait()


if __name__ == "__main__":
    main()
