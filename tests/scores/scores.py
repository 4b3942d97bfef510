"""The scores. Each counts what should not be, so that less is better and nothing is best."""

from __future__ import annotations

import ast
import hashlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.rules import RULES
from tests.diagnosis.test_hangs import check_suspects
from tests.scores.replay import Hang, Order, hangs

ORDERS = 100
"""Orders of the rules that are tried."""


class Score(msgspec.Struct, frozen=True):
    """One number, and what is behind it."""

    name: str
    bad: float
    of: int
    means: str
    """What is counted."""
    misses: tuple[str, ...]
    """Cases, or lines with their cases."""


def scores() -> tuple[Score, ...]:
    """All of them."""
    return (graph(), blame(), *orders(), contested(), *support(), first_cause())


def graph() -> Score:
    """Do the roots of the graph name who must move first, or do rules have to name others?"""
    wrong = tuple(
        hang.name for hang in hangs() if not all(_is_right(stuck.root_blockers(), hang) for stuck in hang.stuck)
    )
    return Score("graph", len(wrong), len(hangs()), "hangs whose suspects are wrong by the graph's roots alone", wrong)


def _is_right(suspects: tuple[Suspect, ...], hang: Hang) -> bool:
    """As the recorded cases are judged."""
    try:
        check_suspects(msgspec.structs.replace(hang.finding, suspects=suspects, waiters=()), hang.expected)
    except AssertionError:
        return False
    return True


def blame() -> Score:
    """Of members that wait for each other: do the ways in which some are responsible exclude each other?"""
    sets = [(hang.name, stuck.blamed()) for hang in hangs() for stuck in hang.stuck]
    several = tuple(f"{name}: {', '.join(ways)}" for name, ways in sets if len(set(ways.values())) > 1)
    return Score(
        "blame", len(several), len(sets), "stuck sets in which two ways to be responsible name others", several
    )


def orders() -> tuple[Score, ...]:
    """Do rules say of themselves which hangs are theirs, or does it take the order in which they are asked?"""
    missed = [_missed(_shuffled(seed)) for seed in range(ORDERS)]
    often = Counter(name for names in missed for name in names)
    numbers = sorted(map(len, missed))
    median, means = statistics.median(numbers), "hangs with a wrong cause by the"
    behind = tuple(f"{name}: in {count} of {ORDERS} orders" for name, count in often.most_common())
    return (
        Score("order-median", median, len(hangs()), f"{means} median of {ORDERS} random orders", behind),
        Score("order-worst", numbers[-1], len(hangs()), f"{means} worst of them", max(missed, key=len)),
        Score("order-best", numbers[0], len(hangs()), f"{means} best of them", min(missed, key=len)),
    )


def _shuffled(seed: int) -> Order:
    """A random order in which any two rules stand as they stood, whichever rules come or go."""
    return tuple(sorted(RULES, key=lambda rule: hashlib.sha256(f"{seed} {rule.CAUSE}".encode()).digest()))


def _missed(order: Order) -> tuple[str, ...]:
    return tuple(
        hang.name for hang in hangs()
        if not all(stuck.winner(order) in hang.expected.causes for stuck in hang.stuck)
    )  # fmt: skip


def contested() -> Score:
    """Is each stuck set the case of one rule?"""
    sets = [(hang.name, stuck) for hang in hangs() for stuck in hang.stuck]
    several = tuple(f"{name}: {', '.join(stuck.answers)}" for name, stuck in sets if len(stuck.answers) > 1)
    return Score("contested", len(several), len(sets), "stuck sets that two or more rules match", several)


def support() -> tuple[Score, ...]:
    """Does each branch of a rule explain several hangs, or the one that it was written for?"""
    won: dict[str, set[str]] = defaultdict(set)
    for name, site in _winning_sites():
        won[site].add(name)
    single = tuple(f"{site}: {', '.join(names)}" for site, names in sorted(won.items()) if len(names) == 1)
    sites = set(_sites())
    never = tuple(sorted(sites - set(won)))
    return (
        Score("support", len(single), len(won), "branches of rules that win in one recording only", single),
        Score("no-support", len(never), len(sites), "branches of rules that win in no recording", never),
    )


def _winning_sites() -> Iterator[tuple[str, str]]:
    for hang in hangs():
        for stuck in hang.stuck:
            if answer := stuck.answers.get(stuck.winner(RULES)):
                yield hang.name, answer.site


def _sites() -> Iterator[str]:
    """Every line of a rule that returns a match."""
    for path in (Path(rule.__file__) for rule in RULES):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Match":
                yield f"{path.name}:{node.lineno}"


def first_cause() -> Score:
    """Is the cause the best one, and not just one that a careful person would accept?"""
    others = tuple(
        f"{hang.name}: {hang.finding.cause}, not {hang.expected.causes[0]}" for hang in hangs()
        if hang.finding.cause != hang.expected.causes[0]
    )  # fmt: skip
    return Score("first-cause", len(others), len(hangs()), "hangs with an accepted cause, not the best one", others)
