import json
import socket
import os
import signal
import subprocess
import sys
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)



def serve(descriptor):
    say("role", role="subprocess")
    say("culprit", thread="MainThread")
    with socket.socket(fileno=descriptor) as server:
        while True:
            client, _ = server.accept()  # CULPRIT
            with client:
                client.sendall(b"0.5")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    with socket.create_server(("127.0.0.1", 0)) as server:
        # A notice of preemption must not hit a phase that has only begun; the scorer inherits what is blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        scorer = subprocess.Popen([sys.executable, __file__, str(server.fileno())], pass_fds=[server.fileno()])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        address = server.getsockname()
    with socket.create_connection(address) as score:
        score.recv(100)
    time.sleep(1)
    scorer.terminate()
    say("settled")
    scorer.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1])) if sys.argv[1:] else main()
