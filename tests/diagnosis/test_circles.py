"""Whoever waits in a circle is told what fits the waits in it, seen in recorded hangs."""

from __future__ import annotations

import pytest

from mpmon.diagnosis import History, diagnose
from mpmon.session.recording import read_recording
from tests.hangs.expected import HOME


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("threads-abba", "Take the locks in the same order"),
        ("mp-lock-abba", "Take the locks in the same order"),
        ("polls-event-of-stuck-worker", "Release the lock"),
        ("sqlite-wal-waits-for-writer", "commit"),
        ("import-waits-for-importers", "while a module is being imported"),
        ("peers-send-first", "Take something out while putting"),
        ("pool-callback-blocks", "Take items out until whoever puts them has ended"),
        ("cuda-queue-full-before-done", "Take the items while you wait for the event"),
        ("popen-stdin-open", "Close the program's standard input"),
        ("sort-eats-stdin", "stdin=DEVNULL"),
        ("pty-wrong-prompt", "Print what was read so far"),
        ("registrar-asks-in-turn", "Let the server answer whoever asks"),
        ("reloader-waits-for-old-server", "Before join(), give the thread what it waits for"),
        ("planner-never-done", "Call task_done() for every item"),
        ("start-line-counts-main", "The barrier counts a party that never calls wait()"),
        ("checkout-nested", "need a thread each"),
        ("acknowledged-by-request", "Each waits for the other to act first"),
        ("env-and-trainer-receive", "Check the last message of each side"),
        ("files-await-each-other", "Write each file before waiting for the other one's"),
        ("ring-permit-leak", "Give back what was taken on every path"),
    ],
)
def test_advice_by_the_waits_in_the_circle(case: str, says: str) -> None:
    history = History()
    for snapshot in read_recording(HOME / case / "recording.jsonl.gz"):
        history = history.add(snapshot)
    assert says in "\n".join(diagnose(history).findings[0].advice)
