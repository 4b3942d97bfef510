"""The wait-for chain as a picture."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Finding, Link, Place, Suspect, Waiter
from mpmon.session.watch import ReplayWatch
from mpmon.tui.ascii import AsciiFilter
from mpmon.tui.describe.finding import chain
from mpmon.tui.describe.naming import names_of, short_names
from mpmon.tui.describe.picture import MOST_BOXES, drawn_pids, picture
from mpmon.tui.line import cells, text_of
from mpmon.tui.scene import Scene
from tests.hangs.expected import HOME
from tests.tui.fakes import hung, with_views
from tests.tui.node_fakes import LAUNCHER, RANKS, STUCK, node

NODE = Scene(node(hung=True))


def drawn(scene: Scene, finding: Finding, width: int = 80) -> list[str]:
    return [text_of(line).rstrip() for line in picture(scene, finding, width)]


def last_finding(case: str) -> tuple[Scene, Finding]:
    scene = Scene(list(ReplayWatch(HOME / case / "recording.jsonl.gz", at_once=True))[-1])
    assert scene.finding is not None
    return scene, scene.finding


def test_many_that_wait_for_one_are_one_box() -> None:
    assert NODE.finding is not None
    assert drawn(NODE, NODE.finding) == [
        "   ┌── rank 0–5,7 ────────────────────────────────────────────────┐",
        "   │ all_reduce  train.py:41 in step                              │",
        "   └─┬────────────────────────────────────────────────────────────┘",
        "   ┌─↓ rank 6 (6070) ─────────────────────────────────────────────┐",
        "   │ next batch  train.py:40 in step                              │",
        "   └─┬────────────────────────────────────────────────────────────┘",
        "   ┌─↓ dataloader worker 1 of rank 6 (6072) ── blocks the others ─┐",
        "   │ time.sleep  dataset.py:88 in download                        │",
        "   └──────────────────────────────────────────────────────────────┘",
    ]
    assert drawn_pids(NODE, NODE.finding) == {*RANKS, STUCK}


def test_two_that_wait_for_each_other_are_a_cycle() -> None:
    assert drawn(*last_finding("mp-lock-abba")) == [
        "   ┌── process reindex (31505) ── blocks the others ────┐←─┐",
        "   │ a lock held by process evict  job.py:18 in reindex │  │",
        "   └─┬──────────────────────────────────────────────────┘  │",
        "   ┌─↓ process evict (31506) ── blocks the others ──────┐  │",
        "   │ a lock held by process reindex  job.py:27 in evict │──┘",
        "   └────────────────────────────────────────────────────┘",
    ]


def test_one_that_waits_for_itself_is_a_cycle_of_one() -> None:
    *_, top, text, bottom = drawn(*last_finding("thread-lock-twice"))
    assert "blocks the others" in top
    assert top.endswith("┐←─┐")
    assert text.endswith("│──┘")
    assert bottom.endswith("┘")


def test_the_others_of_a_collective_share_a_box_in_the_cycle() -> None:
    assert drawn(*last_finding("uneven-batches")) == [
        "   ┌── rank 2 (8369) ── blocks the others ─┐←─┐",
        "   │ barrier  job.py:62 in train           │  │",
        "   └─┬─────────────────────────────────────┘  │",
        "   ┌─↓ rank 0–1 (8367, 8368) ──────────────┐  │",
        "   │ backward  job.py:57 in train          │──┘",
        "   └───────────────────────────────────────┘",
    ]


def test_those_before_and_after_the_suspect_share_a_box_too() -> None:
    assert [line[3:13].strip() for line in drawn(*last_finding("barrier-rank0-branch"))[::3]] == [
        "┌── rank 0",
        "┌─↓ rank 1",
    ]
    assert "rank 1–2 (30633, 30634)" in drawn(*last_finding("barrier-rank0-branch"))[3]


def test_who_never_came_is_nobody_and_no_cycle() -> None:
    found = drawn(*last_finding("rank-missing"))
    assert any("↓ nobody" in line for line in found)
    assert not any("←" in line for line in found)


def ring(count: int) -> Finding:
    """So many ranks of which each waits for the next, and the last for the first."""
    links = tuple(
        Link(pid=n + 1, role=f"rank {n}", does="send", place=Place(function="ring", file="/a/job.py", line=n))
        for n in range(count)
    )
    suspects = tuple(Suspect(pid=link.pid, role=link.role) for link in links)
    return Finding(cause="sendrecv-unmatched", certainty=Certainty.LIKELY, summary="", suspects=suspects, chain=links)


def test_a_long_ring_loses_its_middle() -> None:
    found = drawn(Scene(hung()), ring(64))
    assert len(found) == 3 * MOST_BOXES
    assert any("56 more" in line for line in found)
    assert found[0].endswith("┐←─┐")
    assert found[-2].endswith("│──┘")


def test_a_chain_of_its_own_suspect_is_no_cycle() -> None:
    finding = msgspec.structs.replace(ring(1), cause="worker-stuck")
    assert len(drawn(Scene(hung()), finding)) == 3
    assert "←" not in "".join(drawn(Scene(hung()), finding))


def test_without_a_chain_there_is_no_picture() -> None:
    assert drawn(Scene(hung()), ring(0)) == []


CASES = sorted(path.parent.name for path in HOME.glob("*/recording.jsonl.gz"))


@pytest.mark.parametrize("case", CASES)
def test_every_recorded_chain_fits_and_its_frames_are_closed(case: str) -> None:
    scene = Scene(list(ReplayWatch(HOME / case / "recording.jsonl.gz", at_once=True))[-1])
    for finding in scene.diagnosis.findings:
        for width in (60, 80, 120):
            lines = picture(scene, finding, width)
            assert all(cells(line) <= width for line in lines)
            edge = text_of(lines[0]).find("┐") if lines else 0
            assert all(text_of(line)[edge] in "┐│┘" for line in lines)
        assert len(picture(scene, finding, 80)) <= 4 * MOST_BOXES


def test_ascii_knows_every_glyph_of_it() -> None:
    scene, finding = last_finding("uneven-batches")
    from rich.segment import Segment
    from textual.color import Color

    segments = [Segment(text) for text in drawn(scene, finding)]
    assert not any("?" in s.text for s in AsciiFilter().apply(segments, Color(0, 0, 0)))


def test_the_chain_in_short_marks_the_suspects_wherever_they_are() -> None:
    scene, finding = last_finding("uneven-batches")
    (line, *_) = chain(scene, finding, 80, most=2)
    assert [text for text, style in line if style == "bad"] == ["rank 2 "]


# Many in few words


def test_a_crowd_is_said_by_kinds_and_numbers() -> None:
    assert names_of(NODE, RANKS) == "rank 0–7"
    assert names_of(NODE, (LAUNCHER,)) == "launcher (6000)"
    assert (
        names_of(NODE, (*RANKS[:2], *range(RANKS[0] + 1, RANKS[0] + 5))) == "rank 0–1; dataloader worker 0–3 of rank 0"
    )
    assert names_of(NODE, (77,)) == "process 77"
    assert short_names(NODE, (RANKS[0] + 1, RANKS[0] + 3)) == "dataloader worker 0,2"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("process Worker-{}", "process Worker-1–6"),
        ("process Process-1:{}", "process Process-1:1–6"),
        ("process feed", "6 × process feed"),
    ],
)
def test_numbers_that_a_program_gave_are_joined_too(name: str, said: str) -> None:
    job = hung()
    views = tuple(msgspec.structs.replace(v, role=name.format(n)) for n, v in enumerate(job.diagnosis.processes, 1))
    assert short_names(Scene(with_views(job, *views)), [v.pid for v in views]) == said


def test_processes_without_numbers_are_counted() -> None:
    job = hung()
    views = tuple(msgspec.structs.replace(v, role="manager") for v in job.diagnosis.processes)
    scene = Scene(with_views(job, *views))
    assert names_of(scene, [v.pid for v in views]) == "6 × manager"


def test_waiters_beside_the_picture_are_listed_together() -> None:
    from mpmon.tui.describe.finding import in_full

    assert NODE.finding is not None
    more = tuple(Waiter(pid=pid, role="dataloader worker 0", waits_for="room in a queue") for pid in (6011, 6021))
    finding = msgspec.structs.replace(NODE.finding, waiters=(*NODE.finding.waiters, *more))
    diagnosis = msgspec.structs.replace(NODE.diagnosis, findings=(finding,))
    said = [
        text_of(line) for line in in_full(Scene(msgspec.structs.replace(NODE.observation, diagnosis=diagnosis)), 100)
    ]
    assert "   · dataloader worker 0 of rank 0–1 (6011, 6021): room in a queue" in said
