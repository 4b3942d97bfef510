"""A link between two machines that loses what is sent over it; and one over which much waits because its reader is slow."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Certainty, Verdict
from mpmon.session.watch import ReplayWatch
from tests.nodes.lab import FRONT, Lab, skip_without
from tests.nodes.programs import HOUSE
from tests.nodes.recorded import HOME, last
from tests.patience import becomes

LINK = [HOME / "link" / f"{host}.jsonl.gz" for host in ("h1", "h2")]
SLOW = [HOME / "slow-reader" / f"{host}.jsonl.gz" for host in ("h1", "h2")]
TRAIN = Path(__file__).parent / "train.py"
LONGEST_S = 90.0


def test_the_link_is_named_with_both_machines_and_its_direction() -> None:
    found = last(*LINK).diagnosis
    (finding,) = found.findings
    assert (finding.cause, finding.certainty, finding.suspects) == ("link-stalled", Certainty.LIKELY, ())
    assert re.match(
        r"data from rank 1 on h2 \(10\.77\.0\.2:\d+\) to rank 0 on h1 \(10\.77\.0\.1:\d+\) is not", found.because
    )
    assert {waiter.role for waiter in finding.waiters} == {"rank 0", "rank 1"}


def test_from_the_machine_of_the_sender_alone_the_other_end_is_an_address() -> None:
    (finding,) = last(LINK[1]).diagnosis.findings
    assert finding.cause == "link-stalled"
    assert re.match(r"data from rank 1 on h2 \(10\.77\.0\.2:\d+\) to 10\.77\.0\.1:\d+ is not", finding.summary)
    assert "From here, a machine that is off looks the same" in finding.advice[-1]


def test_from_the_machine_of_the_receiver_alone_nothing_is_known_of_a_link() -> None:
    (finding,) = last(LINK[0]).diagnosis.findings
    assert finding.cause == "ranks-elsewhere"


@pytest.mark.parametrize("paths", [SLOW, SLOW[:1], SLOW[1:]], ids=["both", "sender", "reader"])
def test_a_reader_that_is_slow_is_no_hang(paths: list[Path]) -> None:
    rounds = list(ReplayWatch(*paths, at_once=True))
    assert all(row.diagnosis.verdict is not Verdict.HUNG for row in rounds), [row.diagnosis.because for row in rounds]
    if paths != SLOW[1:]:
        waiting = [row for round_ in rounds for row in round_.snapshot.objects if row.unacknowledged_bytes]
        assert waiting, "more was sent than was read"
        assert {row.resends for row in waiting} == {0}


@pytest.mark.live
def test_a_cable_that_is_cut_and_put_in_again() -> None:
    skip_without()
    with Lab(2) as lab:
        lab.environment.update(
            PYTHONPATH=str(HOUSE), WORLD_SIZE="2", MASTER_ADDR="h1", MASTER_PORT="29511", GLOO_SOCKET_IFNAME="eth0",
            OMP_NUM_THREADS="1", STUCK="-1",
        )  # fmt: skip
        out, pids = lab.folder / "job.out", lab.folder / "pids"
        pids.mkdir()
        with out.open("ab") as said:
            for number, host in enumerate(("h1", "h2")):
                lab.environment["RANK"] = str(number)
                start = f"{sys.executable} -W ignore {TRAIN} & echo $! > {pids}/{host}; wait"
                lab.start(host, ["bash", "-c", start], stdout=said, stderr=said)
        assert becomes(lambda: "going" in out.read_text(), seconds=LONGEST_S), out.read_text()

        lab.cut("h2")
        cut = {host: look(lab, host, pids) for host in ("h1", "h2")}
        lab.mend("h2")

        # Whichever had sent last sees it; by chance both had.
        assert "link-stalled" in cut.values(), cut
        # Kernels send again after ever longer pauses, which a cable that is back does not end.
        assert becomes(lambda: verdict(lab) != "hung")


def verdict(lab: Lab) -> str:
    """Of the job on both machines."""
    answer = lab.run(FRONT, sys.executable, "-m", "mpmon", "--nodes", "h1,h2", "--once", "--json", check=False)
    return json.loads(answer.stdout)["verdict"]


def look(lab: Lab, host: str, pids: Path) -> str:
    """The cause that is told from one machine alone; empty where it is too early to tell, as from the one that only waits."""
    pid = (pids / host).read_text().strip()
    answer = lab.run(host, sys.executable, "-m", "mpmon", pid, "--once", "--json", check=False)
    findings = json.loads(answer.stdout)["findings"]
    return findings[0]["cause"] if findings else ""
