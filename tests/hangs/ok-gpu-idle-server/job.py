import json
import os
import socketserver
import threading

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def model_main(inbox, outbox):
    net = torch.nn.Sequential(torch.nn.Linear(16, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 4)).to(DEV).eval()
    while (batch := inbox.get()) is not None:
        with torch.inference_mode():
            outbox.put(net(batch).softmax(-1).cpu())
        del batch


class Service:
    def __init__(self):
        ctx = mp.get_context("spawn")
        self.inbox, self.outbox, self.lock = ctx.Queue(), ctx.Queue(), threading.Lock()
        self.proc = ctx.Process(target=model_main, args=(self.inbox, self.outbox), daemon=True)
        self.proc.start()

    def predict(self, rows):
        batch = torch.tensor(rows, dtype=torch.float32, device=DEV)
        with self.lock:
            self.inbox.put(batch)
            return self.outbox.get().tolist()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            probs = self.server.service.predict(json.loads(line))
            self.wfile.write(json.dumps(probs).encode() + b"\n")


def main():
    truth("root")
    service = Service()
    for n in (1, 8, 32):
        service.predict(torch.randn(n, 16).tolist())
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.service = service
        print("listening on", server.server_address, flush=True)
        threading.Timer(2, truth, args=("settled",)).start()
        server.serve_forever()


if __name__ == "__main__":
    main()
