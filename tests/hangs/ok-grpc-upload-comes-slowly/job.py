"""A client uploads batches to a gRPC server, one every 40 seconds; main waits for it, and the server for main's word to end."""

import json
import multiprocessing
import os
import time
from concurrent import futures

import grpc


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def total(batches, context):
    return b"%d" % sum(len(batch) for batch in batches)


def watch(request, context):
    time.sleep(600)
    return b""


def serve(pipe):
    truth("role", role="process serve")
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers = {"Total": grpc.stream_unary_rpc_method_handler(total), "Watch": grpc.unary_unary_rpc_method_handler(watch)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("store", handlers),))
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    pipe.recv()
    server.stop(2).wait()


def batches():
    for number in range(20):
        yield bytes(1000)
        if number == 0:
            truth("settled")
        time.sleep(40)


def upload(port):
    truth("role", role="process upload")
    grpc.insecure_channel(f"127.0.0.1:{port}").stream_unary("/store/Total")(batches())


def watches(port):
    truth("role", role="process watches")
    grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/store/Watch")(b"")


def main():
    truth("root")
    truth("role", role="main")
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    server = spawn.Process(target=serve, args=(there,))
    server.start()
    port = here.recv()
    clients = [spawn.Process(target=target, args=(port,)) for target in (upload, watches)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    here.send("over")
    server.join()


if __name__ == "__main__":
    main()
