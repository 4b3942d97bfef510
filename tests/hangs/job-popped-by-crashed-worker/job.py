"""Workers pop jobs from a list of a redis server of the job; one crashes with its job, and main waits for all results."""

import json
import multiprocessing as mp
import os
import socket
import subprocess
import time

import redis


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connected(port):
    client = redis.Redis(port=port, socket_timeout=None)
    while True:
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            time.sleep(0.1)


def measure(port):
    client = connected(port)
    while True:
        _, text = client.blpop("jobs", 0)
        job = json.loads(text)
        if not job["name"]:
            say("culprit", dead=True)
            say("settled")
        area = job["width"] * job["height"] / len(job["name"])
        client.rpush("results", json.dumps({"id": job["id"], "area": area}))


def main():
    say("root")
    say("role", role="main")
    port = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
    )
    client = connected(port)
    for _ in range(2):
        mp.get_context("spawn").Process(target=measure, args=(port,), daemon=True).start()
    for k in range(12):
        job = {"id": k, "name": "" if k == 7 else f"sheet{k}", "width": k, "height": 2}
        client.rpush("jobs", json.dumps(job))
    areas = {}
    while len(areas) < 12:
        _, text = client.blpop("results", 0)
        result = json.loads(text)
        areas[result["id"]] = result["area"]
    print(areas)
    server.terminate()


if __name__ == "__main__":
    main()
