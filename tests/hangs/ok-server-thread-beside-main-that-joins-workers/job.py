"""Workers wait for items that the handlers of a server thread in main put; main joins the workers."""

import json
import multiprocessing
import os
import http.server
import threading


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.pages.put(self.path)
        self.send_response(204)
        self.end_headers()


def work(pages):
    say("role", role="process work")
    while True:
        pages.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    pages = context.Queue()
    workers = [context.Process(target=work, args=(pages,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pages = pages
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say("settled")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
