"""A gRPC server with one thread: a handler adds up the parts that its own server streams, and so waits for itself."""

import json
import os
import subprocess
import sys
from concurrent import futures

import grpc


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def parts(request, context):
    for number in range(3):
        yield b"%d" % number


def total(request, context):
    truth("culprit", all=True)
    truth("settled")
    with grpc.insecure_channel(f"127.0.0.1:{request.decode()}") as channel:
        return b"%d" % sum(int(part) for part in channel.unary_stream("/store/Parts")(b""))  # CULPRIT


def serve():
    truth("root")
    truth("role", role="main")
    server = grpc.server(futures.ThreadPoolExecutor(1))
    handlers = {
        "Parts": grpc.unary_stream_rpc_method_handler(parts),
        "Total": grpc.unary_unary_rpc_method_handler(total),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("store", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    # A shell between them ends at once, so the client has another parent.
    subprocess.run(["sh", "-c", f"{sys.executable} {__file__} {port} &"], check=True)
    server.wait_for_termination()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}").unary_unary("/store/Total")(sys.argv[1].encode())
    else:
        serve()
