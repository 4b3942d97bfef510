"""Python's frames among those of C."""

from __future__ import annotations

from mpmon.diagnosis.stacks.merging import merged
from mpmon.model import Frame, NativeFrame


def c(function: str | None) -> NativeFrame:
    return NativeFrame(offset=0, how="frame information", function=function, name=function)


def py(function: str, *, enters: bool = True) -> Frame:
    return Frame(function=function, file="job.py", line=1, is_entry=enters)


LOOP = c("_PyEval_EvalFrameDefault")


def test_runs_of_python_stand_where_the_loop_was_entered() -> None:
    native = [c("nanosleep"), c("time_sleep"), LOOP, c("qsort"), c("_PyEval_EvalFrameDefault.cold"), c("main")]
    sleep, key, sort, main = py("sleep", enters=False), py("key"), py("sort", enters=False), py("main")
    found = merged(native, [sleep, key, sort, main])
    assert found.agrees
    assert found.frames == (native[0], native[1], sleep, key, native[3], sort, main, native[5])


def test_before_python_3_11_every_frame_enters_the_loop() -> None:
    found = merged([c("read"), LOOP, c("call"), LOOP], [py("inner"), py("outer")])
    assert found.frames == (c("read"), py("inner"), c("call"), py("outer"))


def test_without_agreement_both_are_shown_apart() -> None:
    native = [c("read"), LOOP, c("call"), LOOP]
    found = merged(native, [py("only")])
    assert not found.agrees
    assert found.frames == (py("only"), *native)
    assert not merged([c("read"), c(None)], [py("one")]).agrees, "the interpreter is stripped"


def test_a_thread_that_python_does_not_know_is_as_it_is() -> None:
    assert merged([c("read"), c("loop")], []) == ((c("read"), c("loop")), True)


def test_the_last_run_may_have_no_entry() -> None:
    frames = py("a", enters=False), py("b", enters=False)
    assert merged([LOOP], frames).frames == frames
