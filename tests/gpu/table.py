"""The end of a run of `tests/gpu`: the table, and the file of it. A plugin of pytest; tests tell it what came of a case."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mpmon.doctor.gpu.case import Result, World
from mpmon.doctor.gpu.report import Report, Row, decode, encode, line, report, summary, torch_words

PROPERTY = "mpmon.gpu"

_found = pytest.StashKey[list[Report]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu-report", metavar="FILE", help="write what tests/gpu confirmed on a GPU to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_found] = []
    config.pluginmanager.register(_Listener(config), "mpmon-gpu-table")


def told(node: pytest.Item, world: World, result: Result, *, standin: bool) -> None:
    """What came of a case, for the table; reports carry it from the process of the test to that of the table."""
    made = report(world.look(), world.torch, [result], standin=standin)
    node.user_properties.append((PROPERTY, encode(made).decode()))


class _Listener:
    """Hears of every test."""

    def __init__(self, config: pytest.Config) -> None:
        self._reports = config.stash[_found]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._reports += [decode(str(value).encode()) for name, value in report.user_properties if name == PROPERTY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for standin in (True, False):
        reports = [made for made in config.stash[_found] if made.standin is standin]
        if reports:
            _write(terminalreporter, merged(reports))
    real = [made for made in config.stash[_found] if not made.standin]
    name = config.getoption("--gpu-report")
    if name and real:
        Path(name).write_bytes(encode(merged(real)))
        terminalreporter.write_line(f"written to {name}")
    elif name:
        terminalreporter.write_line(f"{name} was not written: no case ran on a GPU")


def merged(reports: list[Report]) -> Report:
    """One of all cases of a run."""
    return msgspec.structs.replace(reports[0], results=tuple(row for made in reports for row in made.results))


def _write(terminal: pytest.TerminalReporter, made: Report) -> None:
    where = "stand-ins, not a GPU" if made.standin else f"driver {made.driver}, {', '.join(dict.fromkeys(made.gpus))}"
    terminal.section(f"{where}, {torch_words(made.torch)}")
    results = [_result(row) for row in made.results]
    for result in results:
        terminal.write_line(line(result))
    terminal.write_line(summary(results))


def _result(row: Row) -> Result:
    return Result(row.name, row.confirms, row.verdict, row.words, row.figures, row.seconds)  # type: ignore[arg-type]
