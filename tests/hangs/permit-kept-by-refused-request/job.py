import http.server
import json
import multiprocessing as mp
import os
import socketserver
import threading
import urllib.error
import urllib.request


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Scores(http.server.BaseHTTPRequestHandler):
    running = threading.BoundedSemaphore(2)
    asked = 0

    def do_GET(self):
        Scores.asked += 1
        if Scores.asked == 6:
            say("culprit")
            say("settled")
        self.running.acquire()  # CULPRIT
        if not self.path[1:].isdigit():
            self.send_error(400)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(int(self.path[1:]) ** 2).encode())
        self.running.release()

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def serve(ports):
    say("role", role="process serve")
    server = Server(("127.0.0.1", 0), Scores)
    ports.send(server.server_port)
    server.serve_forever()


def main():
    say("root")
    say("role", role="main")
    ports, there = mp.Pipe()
    mp.get_context("spawn").Process(target=serve, args=(there,), daemon=True).start()
    port = ports.recv()
    for path in ("1", "2", "x", "3", "y", "4", "5"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                print(path, answer.read())
        except urllib.error.HTTPError as error:
            print(path, error)


if __name__ == "__main__":
    main()
