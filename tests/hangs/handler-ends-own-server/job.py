import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import http.client
import http.server
import multiprocessing as mp


class Control(http.server.BaseHTTPRequestHandler):
    """One request at a time; `/stop` ends the server."""

    def do_GET(self):
        if self.path == "/stop":
            self.server.shutdown()  # CULPRIT
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def control(pipe):
    say("role", role="process control")
    say("culprit", thread="MainThread")
    server = http.server.HTTPServer(("127.0.0.1", 0), Control)
    pipe.send(server.server_port)
    server.serve_forever()


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    return connection.getresponse().status


def main():
    say("root")
    say("role", role="main")
    near, far = mp.Pipe()
    mp.Process(target=control, args=(far,), name="control", daemon=True).start()
    port = near.recv()
    print(get(port, "/status"))
    say("settled")
    print(get(port, "/stop"))


if __name__ == "__main__":
    main()
