import json
import multiprocessing as mp
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class H(BaseHTTPRequestHandler):
    def do_GET(self):
        threading.current_thread().name = "handler"
        say("culprit", thread="handler")
        say("settled")

        time.sleep(86400)  # CULPRIT
        self.send_response(200)


def server(served):
    say("role", role="process server")
    served.serve_forever()


def main():
    served = ThreadingHTTPServer(("127.0.0.1", 0), H)
    ctx, url = mp.get_context("fork"), f"http://127.0.0.1:{served.server_port}/model"
    ctx.Process(target=server, args=(served,)).start()
    print(urllib.request.urlopen(url).status)


say("root"), say("role", role="main"), main()
