import json
import os
import http.server
import queue
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


JOBS = queue.Queue()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        JOBS.put(self.path)


def work():
    while True:
        print(JOBS.get())


def main():
    say("root")
    say("role", role="main")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    worker = threading.Thread(target=work)
    worker.start()
    say("settled")
    worker.join()


main()
