"""What is written can be read: any snapshot, of this version and of others."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.codec import TABLES, BadRecording, decode, decode_round, encode, encode_round
from mpmon.model import Process, Row, Snapshot
from mpmon.rows import same_rows
from tests.builders import process, snapshot, stack
from tests.strategies import changed, rows, snapshots

KINDS = [kind for kind in Row.__subclasses__() if kind.__module__.startswith("mpmon.model.")]


def facts(row: Snapshot) -> dict[str, object]:
    """Snapshots are compared by identity, so here by their tables."""
    return {name: getattr(row, name) for name in Snapshot.__struct_fields__}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_any_row_comes_back(kind: type[Row]) -> None:
    @given(rows(kind))
    def check(row: Row) -> None:
        text = encode(row)
        assert text.decode().isprintable()
        again = decode(text, kind)
        if isinstance(row, Snapshot):
            assert facts(again) == facts(row)
        else:
            assert again == row

    check()


@given(snapshots)
def test_any_first_round_comes_back(first: Snapshot) -> None:
    assert facts(decode_round(encode_round(first, None), None)) == facts(first)


@given(snapshots, changed(snapshot(process())), st.sets(st.sampled_from(TABLES)))
def test_a_round_comes_back_whatever_tables_it_shares_with_the_one_before(
    before: Snapshot, other: Snapshot, shared: set[str]
) -> None:
    now = msgspec.structs.replace(other, **{table: getattr(before, table) for table in shared})
    line = encode_round(now, before)
    assert facts(decode_round(line, before)) == facts(now)
    assert {table for table, value in msgspec.json.decode(line).items() if value is None} >= shared


def test_a_table_that_did_not_change_is_null() -> None:
    first = snapshot(process(), stack("main", "job.py:3 main"))
    second = msgspec.structs.replace(first, taken_at=first.taken_at + 1)
    assert b'"stacks":null' in encode_round(second, first)
    assert decode_round(encode_round(second, first), first).stacks is first.stacks


def test_rows_that_are_only_equal_are_written_again() -> None:
    one, other = (process(7),), (process(7),)
    assert one == other
    assert not same_rows(one, other)
    assert same_rows(one, (one[0],))


def test_a_row_that_says_the_same_as_before_is_the_very_same() -> None:
    first = snapshot(process(4100), process(4121, cpu_s=1.5))
    now = snapshot(process(4100), process(4121, cpu_s=2.5), process(4122))
    back = decode_round(encode_round(now, first), first)
    assert facts(back) == facts(now)
    assert back.processes[0] is first.processes[0]


def test_fields_of_a_later_version_are_ignored() -> None:
    line = encode_round(snapshot(process()), None)
    later = msgspec.json.decode(line)
    later["a_table_to_come"] = [{"pid": 1}]
    later["processes"][0]["a_field_to_come"] = {"deep": [1, 2]}
    assert facts(decode_round(msgspec.json.encode(later), None)) == facts(decode_round(line, None))


def test_fields_an_earlier_version_did_not_know_take_their_defaults() -> None:
    line = {"taken_at": 1.0, "root_pid": 2, "root_start_time": 0.5}
    line["processes"] = [
        {"pid": 2, "start_time": 0.5, "ppid": 1, "state": "S", "name": "a", "threads": 1, "cpu_s": 0, "rss_bytes": 0}
    ]
    old = decode_round(msgspec.json.encode(line), None)
    assert old.gpus == ()
    assert old.processes[0] == Process(
        pid=2, start_time=0.5, ppid=1, state="S", name="a", threads=1, cpu_s=0.0, rss_bytes=0
    )


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"7", b'"text"', b"\xff\xfe", b"{}", b'{"taken_at": "now"}', b"[" * 100_000],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_round_is_a_bad_recording(text: bytes) -> None:
    with pytest.raises(BadRecording):
        decode_round(text, None)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_round_or_a_bad_recording(text: bytes) -> None:
    with contextlib.suppress(BadRecording):
        decode_round(text, None)
