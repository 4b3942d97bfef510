"""Two clients wait in handlers of a gRPC server until a third one calls, as anybody may."""

import json
import multiprocessing
import os
import threading
from concurrent import futures

import grpc

THREADS = 4

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class News(grpc.GenericRpcHandler):
    def __init__(self):
        self.callers, self.changed = 0, threading.Condition()

    def service(self, call):
        return grpc.unary_unary_rpc_method_handler(self.watch)

    def watch(self, request, context):
        with self.changed:
            self.callers += 1
            self.changed.notify_all()
            if self.callers == 2:
                truth("settled")
            while self.callers % 3:
                self.changed.wait()
        return b""


def serve(port):
    truth("role", role="process serve")
    server = grpc.server(futures.ThreadPoolExecutor(THREADS))
    server.add_generic_rpc_handlers((News(),))
    port.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    server.wait_for_termination()


def work(port):
    truth("role", role="process work")
    call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/news/watch")
    for _ in range(5):
        call(b"", wait_for_ready=True)


def main():
    truth("root")
    truth("role", role="main")
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    spawn.Process(target=serve, args=(there,), daemon=True).start()
    port = here.recv()
    workers = [spawn.Process(target=work, args=(port,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
