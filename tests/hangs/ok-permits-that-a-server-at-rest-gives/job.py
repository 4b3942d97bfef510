"""Workers wait for permits that the handler of requests in main gives."""

import json
import multiprocessing
import os
import http.server


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Office(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.tickets.release()
        self.send_response(204)
        self.end_headers()


def work(tickets):
    say("role", role="process work")
    while True:
        tickets.acquire()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    tickets = context.Semaphore(0)
    for _ in range(3):
        context.Process(target=work, args=(tickets,), daemon=True).start()
    server = http.server.HTTPServer(("127.0.0.1", 0), Office)
    server.tickets = tickets
    say("settled")
    server.serve_forever()


if __name__ == "__main__":
    main()
