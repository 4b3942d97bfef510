import json, multiprocessing as mp, os, socket
from multiprocessing.connection import wait


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def serve(listener, turn, number):
    truth("role", role=f"server {number}")
    while True:
        with turn:
            connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(4096).upper())


def main():
    truth("root")
    truth("role", role="main")
    context = mp.get_context("fork")
    listener, turn = socket.create_server(("127.0.0.1", 0)), context.Lock()
    servers = [context.Process(target=serve, args=(listener, turn, n)) for n in range(3)]
    for server in servers:
        server.start()
    truth("settled")
    while servers:
        # One that ends is replaced.
        wait([server.sentinel for server in servers])
        for at, server in enumerate(servers):
            if not server.is_alive():
                servers[at] = context.Process(target=serve, args=(listener, turn, at))
                servers[at].start()


if __name__ == "__main__":
    main()
