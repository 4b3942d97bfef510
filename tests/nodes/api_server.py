"""An API server that is just enough for the real kubectl: what there is, a list of pods, exec over a WebSocket.

What kubectl 1.30 and newer ask: discovery below /api and /apis, pods of a namespace, and for `exec` the subprotocol
`v5.channel.k8s.io` (RFC 6455; each message begins with the number of its channel).  Commands run on this machine.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
import sys
from urllib.parse import parse_qs, urlsplit

PODS = {"train-0": "Running", "train-1": "Pending"}
SELECTOR = "job-name=train"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
BINARY, CLOSING, PING, PONG = 2, 8, 9, 10
VERB = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}


def pod(name: str) -> dict:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec,
            "status": {"phase": PODS[name]}}  # fmt: skip


def answer(path: str, query: dict[str, list[str]]) -> dict:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
    if path == "/api/v1":
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": [VERB]}
    if path.endswith("/pods"):
        items = [pod(name) for name in PODS if query.get("labelSelector") == [SELECTOR]]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
    name = path.rpartition("/")[2]
    return pod(name) if name in PODS else {}


def packed(data: bytes, code: int = BINARY) -> bytes:
    size = len(data)
    length = struct.pack(">B", size) if size < 126 else struct.pack(">BH", 126, size)
    return bytes([128 | code]) + length + data


async def unpacked(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Code and content of a frame, which of a client is masked."""
    first, second = await reader.readexactly(2)
    size = second & 127
    if size >= 126:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    return first & 15, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


async def execute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str, command: list[str]) -> None:
    accept = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
    writer.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
    )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    listening = asyncio.create_task(listen(reader, writer, process))
    await asyncio.gather(copy(process.stdout, writer, STDOUT), copy(process.stderr, writer, STDERR))
    status = await process.wait()
    causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(status)}]}, "reason": "NonZeroExitCode"}
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure" if status else "Success"}
    writer.write(packed(bytes([ERROR]) + json.dumps({**told, **(causes if status else {})}).encode()))
    writer.write(packed(struct.pack(">H", 1000), CLOSING))
    await writer.drain()
    listening.cancel()


async def copy(stream: asyncio.StreamReader, writer: asyncio.StreamWriter, channel: int) -> None:
    while data := await stream.read(32768):
        writer.write(packed(bytes([channel]) + data))
        await writer.drain()


async def listen(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: asyncio.subprocess.Process
) -> None:
    try:
        while (got := await unpacked(reader))[0] != CLOSING:
            code, data = got
            if code == PING:
                writer.write(packed(data, PONG))
            elif data[:1] == bytes([STDIN]):
                process.stdin.write(data[1:])
                await process.stdin.drain()
            elif data[:2] == bytes([CLOSE, STDIN]):
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    process.stdin.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        url = urlsplit(line.decode().split()[1])
        headers: dict[str, str] = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        query = parse_qs(url.query)
        if "sec-websocket-key" in headers:
            await execute(reader, writer, headers["sec-websocket-key"], query["command"])
            break
        body = answer(url.path, query)
        text = json.dumps(body).encode()
        head = f"HTTP/1.1 {200 if body else 404} -\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
