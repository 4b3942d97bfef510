"""Main asks a service in a child, over HTTP and with a library, for the state of a run that begins when main says so, which it does afterwards."""

import json
import multiprocessing
import os
import http.server
import time
import urllib.request


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"waiting")

    def log_message(self, *_):
        pass


def serve(server):
    say("role", role="process serve")
    server.serve_forever()


def run(starts):
    say("role", role="process run")
    say("waiter")
    print(starts.get(), flush=True)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    context.Process(target=serve, args=(server,), daemon=True).start()
    starts = context.Queue()
    context.Process(target=run, args=(starts,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    say("culprit")
    say("settled")
    while True:
        state = urllib.request.urlopen(address).read()
        if state == b"done":
            break
        print("state:", state.decode(), flush=True)
        time.sleep(0.5)  # CULPRIT
    starts.put("now")


if __name__ == "__main__":
    main()
