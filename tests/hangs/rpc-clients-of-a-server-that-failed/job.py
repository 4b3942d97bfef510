"""A server fails at its checkpoint before it listens; its clients wait until it is ready, and try again."""

import json
import multiprocessing
import os
import socket
import time
from concurrent import futures

import grpc


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Weights(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.pull)

    def pull(self, request, context):
        time.sleep(0)
        return b"0.5"


def serve(address, checkpoint):
    say("culprit", dead=True)
    json.loads(checkpoint)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([Weights()])
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def train(address):
    say("role", role="process train")
    with grpc.insecure_channel(address) as channel:
        for _ in range(200):
            float(channel.unary_unary("/weights/pull")(b"", wait_for_ready=True))


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    servers = [context.Process(target=serve, args=(address, text), daemon=True) for text in ['{"step": 12']]
    trainers = [context.Process(target=train, args=(address,)) for _ in range(2)]
    for process in [*servers, *trainers]:
        process.start()
    say("settled")
    for process in trainers:
        process.join()


if __name__ == "__main__":
    main()
