"""The agent, spoken with by hand: what it answers, and that it ends in each of the ways it should."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec import structs

from mpmon import __version__
from mpmon.codec import decode_round
from mpmon.nodes import here
from mpmon.nodes.wire import FIGURES, NOTHING, Alive, Ask, AskRas, Beat, Bye, End, Hello, RasAnswer, Round, frames
from tests.live.running import Program
from tests.nodes.programs import LOOK, AgentProcess
from tests.patience import becomes
from tests.probes.ras_server import answer, communicator, missing, rank, ras, says

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    """Two processes that wait for each other."""
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


@pytest.fixture
def agent(job: Program) -> Iterator[AgentProcess]:
    with AgentProcess(str(job.pid)) as process:
        yield process


def test_it_says_who_it_is_and_what_runs(agent: AgentProcess, job: Program) -> None:
    hello = agent.hear(Hello)

    assert (hello.version, hello.host) == (__version__, os.uname().nodename)
    (found,) = hello.jobs
    assert (found.root, found.processes) == (job.pid, 3)
    assert "lock_order.py" in found.command


def test_it_beats_unasked_and_answers_with_its_clock(agent: AgentProcess) -> None:
    agent.hear(Beat)
    agent.say(Alive(number=5))

    while (beat := agent.hear(Beat)).answers != 5:
        pass
    assert beat.clock > 1e9


def test_it_answers_with_rounds_of_which_each_follows_the_one_before(agent: AgentProcess, job: Program) -> None:
    agent.say(LOOK, Ask(number=1))
    first = agent.hear(Round)
    agent.say(Ask(number=2))
    second = agent.hear(Round)
    agent.say(Ask(number=3, whole=True))
    third = agent.hear(Round)

    assert [(told.answers, told.follows) for told in (first, second, third)] == [(1, 0), (2, 1), (3, 0)]
    before = decode_round(bytes(first.snapshot), None)
    after = decode_round(bytes(second.snapshot), before)
    assert {row.pid for row in after.processes} == {job.pid, job.pids["left"], job.pids["right"]}
    assert after.taken_at > before.taken_at
    assert decode_round(bytes(third.snapshot), None).processes


def test_it_asks_nccl_for_the_front_end(agent: AgentProcess) -> None:
    address = agent.hear(Hello).address
    with ras(says(answer(communicator(rank(0, 99), rank(1, 98), missing=(missing(2, 97),))))) as (at, asked):
        agent.say(AskRas(number=1, agent="another", host=at.host, port=at.port))
        agent.say(AskRas(number=2, agent=address, host=at.host, port=at.port))
        said = agent.hear(RasAnswer)
    agent.say(AskRas(number=3, agent=address, host=at.host, port=at.port))
    refused = agent.hear(RasAnswer)

    assert (said.answers, said.problem, len(said.communicators[0].peers)) == (2, "", 2)
    assert asked.count("VERBOSE STATUS") == 1
    assert (refused.answers, refused.reached) == (3, False)
    assert refused.problem == "is not reached: Connection refused"


def test_an_answer_that_is_not_nccls_is_one_sentence(agent: AgentProcess) -> None:
    address = agent.hear(Hello).address
    with ras(says(b"no JSON")) as (at, _):
        agent.say(AskRas(number=1, agent=address, host=at.host, port=at.port))
        said = agent.hear(RasAnswer)

    assert (said.communicators, said.reached) == ((), True)
    assert said.problem


def test_it_says_how_its_machine_is_in_few_bytes(agent: AgentProcess) -> None:
    agent.say(LOOK, Ask(number=1, facts=()))
    first = agent.hear(Round)
    agent.say(Ask(number=2, facts=()))
    second = agent.hear(Round)

    assert first.reasons is not None
    assert set(first.reasons) >= {"gpu_power_watts", "steal_percent"}
    told = dict(zip(FIGURES, second.figures, strict=True))
    assert told["over_s"] > 0.0
    assert told["steal_percent"] is not None
    agent.say(Ask(number=3, facts=()))
    third = agent.hear(Round)
    assert third.reasons is None
    without = structs.replace(third, figures=())
    assert len(b"".join(frames(1, third))) - len(b"".join(frames(1, without))) < 120


@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="only root can give up a capability")
def test_it_says_what_it_may_not_read(agent: AgentProcess, job: Program) -> None:
    agent.say(LOOK, Ask(number=1))
    assert agent.hear(Round).rights == ""
    agent.say(Ask(number=2))
    assert agent.hear(Round).rights is None
    with AgentProcess(str(job.pid), below=("setpriv", "--bounding-set=-sys_ptrace")) as poorer:
        poorer.say(LOOK, Ask(number=1))
        assert "has capabilities that mpmon lacks" in poorer.hear(Round).rights


def test_it_sends_facts_only_where_it_is_asked_for_them(agent: AgentProcess) -> None:
    address = agent.hear(Hello).address
    agent.say(LOOK, Ask(number=1, facts=()))
    words = agent.hear(Round)
    agent.say(Ask(number=2, facts=("another", address)))
    facts = agent.hear(Round)
    agent.say(Ask(number=3, facts=("another",)))
    again = agent.hear(Round)

    assert [(told.answers, told.follows, told.classes) for told in (words, facts, again)] == [
        (1, 0, ()), (2, 1, None), (3, 2, None)
    ]  # fmt: skip
    assert bytes(words.snapshot) == bytes(again.snapshot) == bytes(NOTHING)
    assert decode_round(bytes(facts.snapshot), None).processes


def test_after_a_lost_answer_it_leaves_out_nothing(agent: AgentProcess) -> None:
    agent.say(LOOK, Ask(number=1))
    agent.hear(Round)
    agent.say(Ask(number=2, facts=(), whole=True))
    words = agent.hear(Round)
    agent.say(Ask(number=3))
    facts = agent.hear(Round)

    assert (words.follows, words.classes, facts.follows) == (0, (), 2)
    assert decode_round(bytes(facts.snapshot), None).processes


def test_a_process_that_is_not_there() -> None:
    with AgentProcess(str((1 << 22) - 1)) as agent:
        assert agent.hear(Hello).jobs == ()
        agent.say(LOOK)

        assert agent.hear(Bye).reason == "no process of the job runs there"


def test_the_last_round_says_so() -> None:
    short = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with short, AgentProcess(str(short.pid)) as agent:
        agent.say(LOOK, Ask(number=1))
        agent.hear(Round)
        assert short.stdin
        short.stdin.close()
        number, told = 1, None
        while told is None or not told.last:
            number += 1
            agent.say(Ask(number=number))
            told = agent.hear(Round)


# The end


def test_it_ends_with_its_input(agent: AgentProcess) -> None:
    agent.hear(Hello)
    assert agent.process.stdin
    agent.process.stdin.close()

    assert agent.end() == 0


def test_it_ends_when_it_is_told(agent: AgentProcess) -> None:
    agent.say(LOOK, Ask(number=1))
    agent.hear(Round)
    agent.say(End())

    assert agent.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_ends_by_a_signal(agent: AgentProcess, number: int) -> None:
    agent.hear(Beat)
    agent.process.send_signal(number)

    assert agent.end() == 0


def test_it_ends_when_nobody_speaks_for_as_long_as_the_lease(agent: AgentProcess) -> None:
    agent.say(type(LOOK)(interval=0.2, stacks="never", lease_s=1.0))

    assert agent.hear(Bye).reason == "no query for 1 s"
    assert agent.end() == 0


def test_it_ends_when_nobody_reads(agent: AgentProcess) -> None:
    agent.hear(Hello)
    assert agent.process.stdout
    agent.process.stdout.close()

    assert agent.end() == 0


def test_it_ends_when_it_is_told_nonsense(agent: AgentProcess) -> None:
    agent.hear(Hello)
    assert agent.process.stdin
    agent.process.stdin.write(b"@mpmon.nodes/9 1\n")

    assert "version 9" in agent.hear(Bye).reason
    assert agent.end() == 0


def test_it_is_not_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    answer = subprocess.run([sys.executable, "-m", "mpmon", "--help"], capture_output=True, text=True, check=True)

    assert "mpmon agent" not in answer.stdout


# Which job


def test_a_step_of_slurm_is_known_by_its_variables() -> None:
    """Two tasks of one step, and one of the batch script: the step is what both tasks are below."""
    code = (
        "import os, sys\n"
        "for step in ('3', '3'):\n"
        "    r, w = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        os.environ.update(SLURM_JOB_ID='4217', SLURM_STEP_ID=step)\n"
        "        os.execv(sys.executable, [sys.executable, '-c', f'import os; os.write({int(sys.argv[1])}, b\"x\"); input()'])\n"
        "input()\n"
    )
    ready, says = os.pipe()
    os.set_inheritable(says, True)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(says)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[says]
    ) as launcher:  # fmt: skip
        told = b""
        while len(told) < 2:
            told += os.read(ready, 2)
        (found,) = here.slurm_steps("4217")

        assert (found.root, found.key, found.processes) == (launcher.pid, "4217.3", 3)
        assert here.slurm_steps("4217", "9") == ()
        assert here.slurm_steps("421") == ()
    os.close(ready)
    os.close(says)


@pytest.mark.parametrize(
    ("names", "key"),
    [
        ("MASTER_PORT=29777 WORLD_SIZE=4", "MASTER_PORT=29777 WORLD_SIZE=4"),
        ("MASTER_PORT=29777 WORLD_SIZE=4 TORCHELASTIC_RUN_ID=none", "MASTER_PORT=29777 WORLD_SIZE=4"),
        ("MASTER_PORT=29777 WORLD_SIZE=4 TORCHELASTIC_RUN_ID=cats-29777", "TORCHELASTIC_RUN_ID=cats-29777"),
    ],
)
def test_ranks_that_a_shell_has_started_are_one_job(names: str, key: str) -> None:
    """By where they meet; each for itself would be a job, and of one job only one rank would be looked at."""
    code = (
        "import multiprocessing as m, os, sys, time\n"
        "m.get_context('spawn').Process(target=time.sleep, args=(1000,), daemon=True).start()\n"
        "os.write(1, b'x'); sys.stdin.read()"
    )
    ranks = " ".join(f'{names} RANK={rank} "$0" -c "$1" <&3 & ' for rank in (0, 1))
    with subprocess.Popen(
        ["bash", "-c", f"exec 3<&0; {ranks} wait", sys.executable, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as shell:  # fmt: skip
        assert shell.stdout
        told = b""
        while len(told) < 2:
            told += shell.stdout.read(2)

        def found() -> list[tuple[int, bool]]:
            return [(job.root, job.processes >= 5) for job in here.jobs_here() if job.key == key]

        # A child that has just been started is not known by its command yet.
        assert becomes(lambda: found() == [(shell.pid, True)]), found()
