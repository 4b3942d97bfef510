"""A gRPC server in whose one stream a client, which is not a process of this job, has nothing to say for ten minutes."""

import json
import os
import subprocess
import sys
import time
from concurrent import futures

import grpc


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def listen(lines, context):
    for _ in lines:
        truth("settled")
    return b""


def serve():
    truth("root")
    truth("role", role="main")
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("chat", {"Listen": grpc.stream_unary_rpc_method_handler(listen)}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    # A shell between them ends at once, so the client has another parent.
    subprocess.run(["sh", "-c", f"{sys.executable} {__file__} {port} &"], check=True)
    server.wait_for_termination()


def lines():
    yield b"hello"
    time.sleep(600)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}").stream_unary("/chat/Listen")(lines())
    else:
        serve()
