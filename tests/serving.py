"""A running `mpmon serve`, and somebody at a browser."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import psutil
import pytest

from tests.patience import NEVER_S, left_of, patience, rest_of
from tests.test_cli import ENVIRONMENT

pytest.importorskip("textual_serve", reason="needs textual-serve")
aiohttp = pytest.importorskip("aiohttp")


class Served:
    """A running `mpmon serve`."""

    def __init__(self, *arguments: str, files: int | None = None, **more: Any) -> None:
        """With so many open files at most."""
        command = [sys.executable, "-m", "mpmon", "serve", *arguments]
        if files:
            command = ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        given = {"env": ENVIRONMENT, **more}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given)
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{43})/", self.address)
        assert found, self.address
        self.port, self.secret = int(found[1]), found[2]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.socket = f"ws://127.0.0.1:{self.port}/{self.secret}/ws?width=80&height=24"

    def screens(self) -> list[psutil.Process]:
        """The processes behind the windows that are open."""
        return psutil.Process(self.process.pid).children()

    def silent(self) -> socket.socket:
        """A connection over which nobody has said anything yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=NEVER_S)

    def end(self) -> tuple[int, str]:
        """Ctrl-C; exit status and what was said on standard error."""
        children = self.screens()
        self.process.send_signal(signal.SIGINT)
        _, said = rest_of(self.process)
        assert left_of(children) == []
        return self.process.returncode, said


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as made:
        yield made


async def status(address: str, **headers: str) -> int:
    async with session() as made, made.get(address, headers=headers) as answer:
        return answer.status


async def upgrade(address: str, **headers: str) -> int:
    """The status with which a websocket is answered; 101 for one that is opened."""
    async with session() as made:
        try:
            async with made.ws_connect(address, headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status


async def hear(socket: Any, words: str) -> str:
    """What was drawn until these words were, in whatever colours."""
    drawn = ""
    while words not in re.sub(r"\x1b\[[\d;]*m", "", drawn):
        message = await socket.receive(timeout=NEVER_S)
        assert message.type is aiohttp.WSMsgType.BINARY, message
        drawn += message.data.decode()
    return drawn


async def until(holds: Callable[[], bool]) -> None:
    for pause in patience(pause_s=0.02):
        if holds():
            return
        await asyncio.sleep(pause)
    raise AssertionError
