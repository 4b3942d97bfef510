"""NCCL's RAS, by a stand-in that answers well, badly, slowly, or without end; no real NCCL has confirmed it."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes.nccl_ras import Address, NoAnswer, ask, communicators, dialogue
from mpmon.probes.nccl_ras.answer import NotUnderstood
from tests.probes.ras_server import ADDRESS, Talk, answer, communicator, missing, rank, ras, says

WELL = answer(communicator(rank(0, 41, AllReduce=6), rank(1, 42, AllReduce=5, Broadcast=1)))


def test_the_whole_dialogue() -> None:
    with ras(says(WELL)) as (address, heard):
        (found,) = communicators(ask(address))
    assert heard == ["connected", "CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "VERBOSE STATUS"]
    assert (found.name, found.size, found.missing) == ("0x2f3a:0x99:0x7", 2, ())
    assert [(peer.rank, peer.host, peer.pid, peer.issued) for peer in found.peers] == [
        (0, ADDRESS, 41, 6), (1, ADDRESS, 42, 6),
    ]  # fmt: skip


def said(talk: Talk) -> tuple[str, list[str]]:
    with ras(talk) as (address, heard), pytest.raises((NoAnswer, NotUnderstood)) as caught:
        communicators(ask(address))
    return str(caught.value), heard


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ({"SET FORMAT json": b"ERROR: Unknown command\n"}, "older than 2.28.7"),
        ({"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 3\n"}, "another protocol"),
        ({"CLIENT PROTOCOL 2": b"HTTP/1.1 400 Bad Request\r\n"}, "is not the RAS of NCCL"),
        ({"CLIENT PROTOCOL 2": b"\xff\x00" * 9000}, "is not the RAS of NCCL"),
        ({"TIMEOUT 5": b"ERROR: Invalid timeout\n"}, "does not take a time limit"),
    ],
)
def test_nobody_is_asked_for_its_state_who_did_not_understand(greeting: dict[str, bytes], words: str) -> None:
    problem, heard = said(says(WELL, greeting))
    assert words in problem
    assert "VERBOSE STATUS" not in heard


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (b"", "without an answer"),
        (WELL[: len(WELL) // 2], "not JSON, or with less than all of it"),
        (b"NCCL version 2.28.3 compiled with CUDA 12.9\n", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"communicators": 4}', "something else"),
        (b"[]", "something else"),
    ],
)
def test_an_answer_that_is_none(status: bytes, words: str) -> None:
    assert words in said(says(status))[0]


def without_end(line: socket.socket, heard: list[str]) -> None:
    says(b'{"communicators": [')(line, heard)
    while True:
        line.sendall(b" " * (1 << 16))


def byte_by_byte(line: socket.socket, heard: list[str]) -> None:
    pause = threading.Event()
    while not pause.wait(0.05):
        line.sendall(b"S")


def silent(line: socket.socket, heard: list[str]) -> None:
    while line.recv(1000):
        pass


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "MOST_BYTES", 4 << 20)
    assert said(without_end)[0] == "sends more than 4 MiB"


@pytest.mark.parametrize("talk", [byte_by_byte, silent])
def test_a_slow_server_is_not_waited_for(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogue, "WITHIN_S", 0.5)
    assert said(talk)[0] == "did not answer within 0 s"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NoAnswer, match="is not reached: Connection refused"):
        ask(Address("127.0.0.1", port))
    with pytest.raises(NoAnswer, match="is not reached"):
        ask(Address("no such host" * 30, 1))


# The answer


def test_the_comma_that_nccl_leaves_out_between_missing_ranks() -> None:
    gone = answer(communicator(rank(0, 41), missing=(missing(1, 42), missing(2, 43, dead=True))))
    assert gone.count(b"}}, {") == 1
    (found,) = communicators(gone.replace(b"}}, {", b"}}\n      {"))
    assert [(row.rank, row.pid, row.dead) for row in found.missing] == [(1, 42, False), (2, 43, True)]


def test_no_other_comma_may_be_missing() -> None:
    both = answer(communicator(rank(0, 41), rank(1, 42)))
    assert both.count(b"}}, {") == 1
    with pytest.raises(NotUnderstood):
        communicators(both.replace(b"}}, {", b"}} {"))


def test_what_is_not_as_it_should_be_is_left_out() -> None:
    odd = communicator(rank(0, 41), {"rank": "x"}, {**rank(2, 43), "collective_counts": {"AllReduce": -1}}, {})
    (found, good) = communicators(answer(odd, {"hash": []}, communicator(rank(0, 44))))
    assert [peer.pid for peer in found.peers] == [41]
    assert [peer.pid for peer in good.peers] == [44]


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(str).map(str.encode))
def test_garbage_is_told_as_such(text: bytes) -> None:
    with pytest.raises(NotUnderstood):
        communicators(text)
