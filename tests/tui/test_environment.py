"""The page of an environment: what differs from the peers, secrets masked, asked for only now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.tui.describe.environment import Answer, differences, environment, peers
from mpmon.tui.line import text_of
from mpmon.tui.scene import Scene
from tests.patience import NEVER_S
from tests.tui.fakes import FakeWatch, hung, with_tables
from tests.tui.node_fakes import LAUNCHER, RANKS, STUCK, node
from tests.tui.screens import LARGE, SIZES, check_golden, play, screen_text_of, settle

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.model import Process

NODE = Scene(node(hung=True))


def variables(pid: int) -> dict[str, str]:
    """Those of a rank: one of them uses another network, and one has no limit of threads."""
    rank = RANKS.index(pid) if pid in RANKS else 0
    found = {
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "HF_TOKEN": "hf_secret",
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "10.0.0.1",
        "NCCL_SOCKET_IFNAME": "eth1" if rank == 6 else "eth0",
        "OMP_NUM_THREADS": "4" if rank < 4 else "8",
        "PATH": ":".join(f"/opt/tools/version-{n}/bin" for n in range(12)),
        "RANK": str(rank),
        "TRACKER": "https://ann:hunter2@tracker.example/api",
    }
    if rank == 6:
        del found["OMP_NUM_THREADS"]
    return found


def answer(process: Process) -> tuple[dict[str, str], str]:
    return variables(process.pid), ""


def texts(pid: int, **answers: object) -> list[str]:
    given = {p: Answer(variables(p)) for p in RANKS} | answers.pop("but", {})  # type: ignore[operator]
    return [text_of(line) for line in environment(NODE, pid, 100, given, masked=True)]


def test_peers_are_the_other_ranks_or_siblings_of_a_kind() -> None:
    assert peers(NODE, RANKS[0]) == RANKS[1:]
    assert peers(NODE, STUCK) == (STUCK - 1, STUCK + 1, STUCK + 2)
    assert peers(NODE, LAUNCHER) == ()


def test_differences_begin_with_what_only_this_one_has_otherwise() -> None:
    found = differences(variables(RANKS[6]), {pid: variables(pid) for pid in RANKS if pid != RANKS[6]})
    assert [(d.name, d.interest) for d in found] == [
        ("NCCL_SOCKET_IFNAME", 0), ("OMP_NUM_THREADS", 1), ("LOCAL_RANK", 2), ("RANK", 2),
    ]  # fmt: skip


def test_differences_are_said_with_who_has_what() -> None:
    said = texts(RANKS[6])
    at = said.index("differs from rank 0–5,7")
    assert said[at + 1 : at + 8] == [
        "  NCCL_SOCKET_IFNAME=eth1",
        "      rank 0–5,7: eth0",
        "  OMP_NUM_THREADS not set here",
        "      rank 0–3: 4",
        "      rank 4–5,7: 8",
        "  LOCAL_RANK=6",
        "      each has its own",
    ]


def test_secrets_that_differ_are_told_and_not_shown() -> None:
    other = Answer(variables(RANKS[1]) | {"HF_TOKEN": "hf_another"})
    said = texts(RANKS[0], but={RANKS[1]: other})
    at = said.index("  HF_TOKEN=******")
    assert said[at + 1 : at + 3] == ["      rank 1: ****** (another)", "      rank 2–7: the same"]
    assert not any("hf_" in line or "hunter2" in line for line in said)


def test_one_that_is_alike_is_said_to_be() -> None:
    given = {pid: Answer({"A": "1"}) for pid in RANKS}
    assert "the same as rank 1–7" in [text_of(li) for li in environment(NODE, RANKS[0], 80, given, masked=True)]


def test_a_value_too_long_is_cut_and_told() -> None:
    given = {RANKS[0]: Answer({"PATH": "/bin:" * 400})}
    said = [text_of(line) for line in environment(NODE, RANKS[0], 80, given, masked=True)]
    assert said[-1].strip().endswith("more characters")
    assert max(map(len, said)) <= 80


# The page


@pytest.mark.parametrize("size", SIZES)
def test_environment_page(size: str) -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("up", "up", "e")
        await settle(pilot, lambda: "rank 0–5,7: eth0" in screen_text_of(pilot))
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(node(hung=True)), script, size=SIZES[size], environment=answer, first="rank 6")
    check_golden(f"environment-{size}", drawn[0])


def test_values_are_shown_on_demand_and_masked_again() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await settle(pilot, lambda: "HF_TOKEN=******" in screen_text_of(pilot))
        await pilot.press("v")
        await settle(pilot, lambda: "HF_TOKEN=hf_secret" in screen_text_of(pilot))
        await pilot.press("v")
        await settle(pilot, lambda: "hf_secret" not in screen_text_of(pilot))

    play(FakeWatch(node(hung=True)), script, size=LARGE, environment=answer, first="rank 6")


def test_a_recording_shows_the_kept_ones_and_says_so() -> None:
    asked: list[Process] = []

    def source(process: Process) -> tuple[dict[str, str], str]:
        asked.append(process)
        return {}, ""

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "e")
        await settle(pilot, lambda: "a recording keeps only these few" in screen_text_of(pilot))
        assert "MASTER_PORT=29500" in screen_text_of(pilot)

    play(FakeWatch(hung(), live=False), script, environment=source, first="4121")
    assert asked == []


def test_a_process_that_does_not_answer_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.tui.screens.environment.PATIENCE_S", 0.05)
    answers = threading.Event()

    def source(process: Process) -> tuple[dict[str, str], str]:
        assert answers.wait(NEVER_S)
        return variables(process.pid), ""

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await settle(pilot, lambda: "no answer for" in screen_text_of(pilot))
        answers.set()
        await settle(pilot, lambda: "MASTER_ADDR=10.0.0.1" in screen_text_of(pilot))

    play(FakeWatch(node(hung=True)), script, environment=source, first="rank 6")


def test_why_it_could_not_be_read_is_said() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await settle(pilot, lambda: "cannot be read: it belongs to another user" in screen_text_of(pilot))

    def source(process: Process) -> tuple[dict[str, str], str]:
        return {}, "cannot be read: it belongs to another user"

    play(FakeWatch(node(hung=True)), script, environment=source, first="rank 6")


def test_the_dead_are_not_peers() -> None:
    job = node(hung=True)
    rows = tuple(
        msgspec.structs.replace(p, state="Z", threads=1) if p.pid == RANKS[1] else p for p in job.snapshot.processes
    )
    scene = Scene(with_tables(job, processes=rows))
    assert RANKS[1] not in peers(scene, RANKS[0])
