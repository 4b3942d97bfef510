"""Of two ranks in different collectives: which has come further, and which is where only its number takes it."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.ranks.ahead import furthest, special
from mpmon.model import Frame, Stack
from tests.builders import stack

Around = tuple[str, ...]


def way(*calls: str, turns: tuple[tuple[int, int, int], ...] = (), **around: Around) -> Stack:
    """The stack of calls, outermost first, such as `train.py:30 main`; the loops of each, and what was tested, by function."""
    rank = stack("main", *reversed(calls))
    return msgspec.structs.replace(rank, turns=turns, frames=tuple(_within(row, around) for row in rank.frames))


def _within(row: Frame, around: dict[str, Around]) -> Frame:
    return msgspec.structs.replace(
        row, loops=around.get(row.function, ()), tested=around.get(f"{row.function}_tests", ())
    )


def further(one: Stack, other: Stack) -> str | None:
    """What is said of the two, in whatever order they are given."""
    said = {
        found.why(found.name, "other" if found.name == "one" else "one") if found else None
        for found in (furthest({"one": one, "other": other}), furthest({"other": other, "one": one}))
    }
    assert len(said) == 1
    return said.pop()


LOOP = ("for 10",)


def test_the_later_line_of_a_function_is_further() -> None:
    assert further(way("train.py:12 main"), way("train.py:20 main")) == "other is at a later line of main than one"


def test_in_the_same_turn_of_a_loop_too() -> None:
    one = way("train.py:12 main", turns=((1, 5, 0),), main=LOOP)
    other = way("train.py:20 main", turns=((9, 5, 0),), main=LOOP)
    assert further(one, other) == "other is at a later line of main than one"


def test_a_later_turn_of_the_loop_is_further_than_a_later_line() -> None:
    one = way("train.py:12 main", turns=((1, 6, 0),), main=LOOP)
    other = way("train.py:20 main", turns=((9, 5, 0),), main=LOOP)
    assert further(one, other) == "in the loop at train.py:10, one came to 6, other to 5"


def test_a_loop_around_the_call_that_leads_there_counts_first() -> None:
    one = way("train.py:12 main", "train.py:40 step", turns=((1, 3, 0),), main=LOOP)
    other = way("train.py:12 main", "train.py:45 step", turns=((9, 2, 0),), main=LOOP)
    assert further(one, other) == "in the loop at train.py:10, one came to 3, other to 2"


def test_where_turns_are_not_known_the_one_that_has_left_an_inner_loop_is_further() -> None:
    validates = way("fit.py:13 run", "val.py:30 loop", turns=(), run=("while 10",), loop=("while 29",))
    advances = way("fit.py:12 run", "fit.py:50 advance", run=("while 10",))
    assert further(validates, advances) == "other has left a loop that one is still in"


def test_and_without_an_inner_loop_the_one_at_the_later_line() -> None:
    one = way("fit.py:13 run", "val.py:30 check", run=("while 10",))
    other = way("fit.py:12 run", "fit.py:50 advance", run=("while 10",))
    assert further(one, other) == "one is at a later line of run than other"


def test_a_loop_that_keeps_no_iterator_hides_the_turns_of_the_others() -> None:
    loops = ("for 8", "for 10")
    one = way("train.py:12 main", turns=((1, 6, 0),), main=loops)
    other = way("train.py:20 main", turns=((9, 5, 0),), main=loops)
    assert further(one, other) == "other is at a later line of main than one"


def test_lines_of_a_library_whose_source_is_not_known_tell_nothing() -> None:
    file = "/lib/python3.11/site-packages/fitter/loop.py"
    assert further(stack("main", f"{file}:13 run"), stack("main", f"{file}:12 run")) is None


@pytest.mark.parametrize("other", ["eval.py:20 check", "train.py:12 main"])
def test_calls_of_different_functions_and_equal_ones_tell_nothing(other: str) -> None:
    assert further(way("train.py:12 main"), way(other)) is None


def test_fsdp_reduces_gradients_after_it_has_gathered_parameters() -> None:
    file = "/lib/python3.11/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py"
    gathers = way("train.py:22 main", f"{file}:585 FSDPParamGroup.pre_backward")
    reduces = way("train.py:22 main", f"{file}:1126 Function.backward", f"{file}:688 FSDPParamGroup.post_backward")
    assert further(gathers, reduces) == "other is in post_backward, which comes after pre_backward, where one is"


@pytest.mark.parametrize(
    ("tests", "found"),
    [
        ({"one": ("rank",), "other": ()}, "one"),
        ({"one": ("not rank",), "other": ()}, "other"),
        ({"one": ("is_main_process", "step"), "other": ("step",)}, "one"),
        ({"one": ("rank",), "other": ("not rank",)}, "one"),
        ({"one": ("step",), "other": ()}, None),
        ({"one": ("rank",), "other": ("local_rank",)}, None),
        ({"one": ("not local_rank", "rank"), "other": ("not local_rank",)}, "one"),
        ({"one": ("lora_rank",), "other": ()}, None),
    ],
)
def test_who_is_where_only_its_number_takes_it(tests: dict[str, Around], found: str | None) -> None:
    one = special({name: way("train.py:12 main", main_tests=tested) for name, tested in tests.items()})
    assert (one.name if one else None) == found


def test_of_three_groups_nothing_is_told() -> None:
    ways = {str(line): way(f"train.py:{line} main", main_tests=("rank",) if line == 1 else ()) for line in (1, 2, 3)}
    assert furthest(ways) is None
    assert special(ways) is None
