"""Formatting, line laying and order: pure functions."""

from __future__ import annotations

import msgspec
import pytest

from mpmon import start
from mpmon.diagnosis.findings import ProcessView
from mpmon.model import Blocked, Frame, NativeFrame, NativeStack
from mpmon.tui import format as fmt
from mpmon.tui.describe.frames import frame_lines, is_users
from mpmon.tui.describe.naming import kind_of
from mpmon.tui.describe.stack import all_threads, thread_lines
from mpmon.tui.keys import APP_KEYS, ENVIRONMENT_KEYS, MAIN_KEYS, PAGE_KEYS, SIGNAL_KEYS, bindings
from mpmon.tui.line import cells, clip, fit, justify, plain, text_of, wrap_spans
from mpmon.tui.scene import Scene
from mpmon.tui.tables.process_columns import plan
from mpmon.tui.tables.process_rows import Rows
from mpmon.tui.tables.tree import Branch, Folding, Layout, natural, tree
from tests.builders import view
from tests.tui.fakes import NOW, frame, hung, stack, with_tables


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (None, "–", "–"),
        (0, "0 s", "<10 s"),
        (59.9, "59 s", "50 s+"),
        (252, "4 min 12 s", "4 min"),
        (3700, "1 h 01 min", "1 h 01"),
        (200000, "2 d 7 h", "2 d"),
    ],
)
def test_age(seconds: float | None, long: str, short: str) -> None:
    assert (fmt.age(seconds), fmt.short_age(seconds)) == (long, short)


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "–"), (0, "0"), (1023, "1023"), (1024, "1.0K"), (10 << 20, "10M"), (1300 << 20, "1.3G"), (1 << 40, "1.0T")],
)
def test_size(count: int | None, said: str) -> None:
    assert fmt.size(count) == said


@pytest.mark.parametrize(
    ("cmdline", "said"),
    [
        (None, "–"),
        (("/usr/bin/python3", "-u", "a/train.py", "-x"), "train.py -x"),
        (("python", "-m", "torch.distributed.run", "t.py"), "torch.distributed.run t.py"),
        (("python", "-X", "dev", "t.py"), "t.py"),
        (("python", "-c", "import this"), "-c import this"),
        (("/opt/bin/torchrun", "t.py"), "torchrun t.py"),
        (tuple(start.command("mpmon.demo.scenes.loader")), "mpmon.demo.scenes.loader"),
        (("python3",), "python3"),
    ],
)
def test_command(cmdline: tuple[str, ...] | None, said: str) -> None:
    assert fmt.command(cmdline) == said


def test_fit_counts_cells_and_not_characters() -> None:
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("ab", 4, right=True) == "  ab"


def test_clip_and_justify_keep_to_the_width() -> None:
    line = (("abcdef", ""), ("ghijkl", "bold"))

    assert text_of(clip(line, 8)) == "abcdefg…"
    assert text_of(clip(line, 6)) == "abcde…"
    assert text_of(clip(line, 12)) == "abcdefghijkl"
    assert text_of(justify(line, plain("HUNG"), 10)) == "abcd… HUNG"


def test_spans_break_only_between_spans() -> None:
    lines = wrap_spans([("rank 0 ", ""), ("→ all_reduce ", ""), ("→ rank 2 ", "")], 16)

    assert [text_of(line).rstrip() for line in lines] == ["rank 0", "  → all_reduce", "  → rank 2"]


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/ada/train.py", True),
        ("train.py", True),
        ("/usr/lib/python3.11/selectors.py", False),
        ("/venv/lib/python3.12/site-packages/torch/a.py", False),
        ("/usr/lib/python3/dist-packages/torch/a.py", False),
        ("<frozen importlib._bootstrap>", False),
    ],
)
def test_users_own_code(file: str, users: bool) -> None:
    assert is_users(frame("f", file)) == users


def test_frames_inherited_by_a_fork_are_one_line() -> None:
    fork = frame("Popen._launch", "/usr/lib/python3.11/multiprocessing/popen_fork.py", 71)
    forked = stack(7, frame("download", line=88), fork, frame("main", "/home/ada/cats/train.py", 42))

    assert [text_of(line).strip() for line in frame_lines(forked, 80)] == [
        "dataset.py:88 in download",
        "forked at train.py:42 in main",
    ]


def test_libraries_between_the_users_frames_fold_into_one_line() -> None:
    machinery = (
        frame("_call_impl", "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", 1),
        frame("_bootstrap", "/usr/lib/python3.11/multiprocessing/process.py", 2),
        frame("_find_and_load", "<frozen importlib._bootstrap>", 3),
        frame("wrapper", "/usr/lib/python3/dist-packages/six.py", 4),
    )
    read, poll = frame("read", "/usr/lib/python3.11/socket.py", 5), frame("poll", "/usr/lib/python3.11/ssl.py", 6)
    one = frame("__next__", "/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py", 7)
    whole = stack(7, read, poll, frame("get", line=8), *machinery, frame("train", line=9), one, frame("main", line=10))

    assert [text_of(line).strip() for line in frame_lines(whole, 80, folded=True)] == [
        "socket.py:5 in read",
        "ssl.py:6 in poll",
        "dataset.py:8 in get",
        "… 4 frames of torch, multiprocessing, importlib …",
        "dataset.py:9 in train",
        "dataloader.py:7 in __next__",
        "dataset.py:10 in main",
    ]
    assert len(frame_lines(whole, 80)) == len(whole.frames)


def native(
    name: str | None, library: str = "/venv/torch/lib/libtorch_cpu.so", how: str = "frame information"
) -> NativeFrame:
    return NativeFrame(library=library, offset=0x20, function=name, name=name, how=how)


PYTHON, LIBC = "/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libc.so.6"
LOOP = native("_PyEval_EvalFrameDefault", PYTHON)


def in_c(*frames: NativeFrame, end: str = "start", tid: int = 7) -> NativeStack:
    return NativeStack(pid=7, tid=tid, taken_at=NOW, frames=frames, end=end)


def entered(name: str, file: str = "/home/ada/cats/dataset.py", line: int = 1) -> Frame:
    return msgspec.structs.replace(frame(name, file, line), is_entry=True)


WAITING = (
    native("poll", LIBC), native("gloo::waitRecv"), native("c10d::wait", how="search"), native(None), LOOP,
    native("vectorcall", PYTHON), LOOP, native("Py_RunMain", PYTHON), native("__libc_start_main", LIBC),
)  # fmt: skip


def test_frames_of_c_stand_dimmed_among_those_of_python() -> None:
    lines = frame_lines(stack(7, entered("wait", line=8), entered("train", line=9)), 80, native=in_c(*WAITING))
    assert [text_of(line).strip() for line in lines] == [
        "| poll (libc.so.6)",
        "| gloo::waitRecv (libtorch_cpu.so)",
        "| c10d::wait (libtorch_cpu.so, found by searching)",
        "| libtorch_cpu.so+0x20",
        "dataset.py:8 in wait",
        "dataset.py:9 in train",
    ]
    assert {style for _, style in lines[1]} == {"dim"}


def test_frames_of_c_fold_with_those_of_libraries_and_without_the_c_library() -> None:
    library = entered("all_reduce", "/venv/lib/python3.12/site-packages/torch/distributed.py", 7)
    whole = stack(7, library, entered("train", line=9))
    lines = frame_lines(whole, 80, folded=True, native=in_c(*WAITING))
    assert [text_of(line).strip() for line in lines] == [
        "| gloo::waitRecv (libtorch_cpu.so)",
        "… 3 frames of libtorch_cpu.so, torch",
        "dataset.py:9 in train",
    ]


def test_where_only_the_c_library_is_on_the_stack_the_frames_are_those_of_python() -> None:
    asleep = stack(7, entered("sleep", line=8))
    lines = frame_lines(asleep, 80, native=in_c(native("clock_nanosleep", LIBC), native("time_sleep", PYTHON), LOOP))
    assert lines == frame_lines(asleep, 80)


def test_frames_of_c_that_are_not_whole_or_do_not_fit_say_so() -> None:
    asleep = stack(7, entered("sleep", line=8))
    lines = frame_lines(asleep, 80, native=in_c(native("gloo::waitRecv"), end="lost"))
    assert [text_of(line).strip() for line in lines] == [
        "dataset.py:8 in sleep",
        "| gloo::waitRecv (libtorch_cpu.so)",
        "(Python and C frames could not be merged: the Python frames are listed first)",
        "(the C frames end here: lost)",
    ]


def test_threads_that_python_does_not_know_show_their_frames_of_c() -> None:
    rows = tuple(Blocked(pid=7, tid=tid, state="S", syscall="poll") for tid in (8, 9, 10))
    natives = (in_c(native("runLoop"), tid=8), in_c(native("runLoop"), tid=9), in_c(native("serve"), tid=10))
    scene = Scene(with_tables(hung(), stacks=(stack(7, entered("main")),), blocked=rows, native_stacks=natives))
    lines = [text_of(line).strip() for line in all_threads(scene, 7, 80)]
    assert lines.count("| runLoop (libtorch_cpu.so)") == 1
    assert lines.count("| serve (libtorch_cpu.so)") == 1
    waits = in_c(native("pthread_cond_wait", LIBC), native("c10d::Work::wait"), tid=8)
    told = thread_lines(Scene(with_tables(hung(), blocked=rows, native_stacks=(waits,))), 7, 8, 99)
    assert "c10d::Work::wait of libtorch_cpu.so waits for the end of a collective" in [
        text_of(row).strip() for row in told
    ]
    assert "| serve (libtorch_cpu.so)" in [text_of(line).strip() for line in thread_lines(scene, 7, 10, 80)]


def test_a_row_is_the_same_object_until_something_of_it_changes() -> None:
    rows, branches = Rows(), [Branch(pid, "") for pid in (4100, 4110, 4121)]
    job = hung()
    first = rows.of(Scene(job), branches)
    later = rows.of(Scene(with_tables(job, taken_at=NOW + 5)), branches)
    minute = rows.of(Scene(with_tables(job, taken_at=NOW + 48)), branches)

    assert [a is b for a, b in zip(first, later, strict=True)] == [True, True, True]
    assert [a is b for a, b in zip(later, minute, strict=True)] == [False, True, False]
    assert minute[2].still_s == 300


def views(**parents: int | None) -> dict[int, ProcessView]:
    """Processes by role; the pid is the number at the end of the role."""
    found = [(int(role.rpartition("_")[2]), role, parent) for role, parent in parents.items()]
    return {pid: view(pid, role, parent=parent) for pid, role, parent in found}


def test_tree_draws_branches_in_natural_order() -> None:
    branches = tree(views(main_1=None, worker_10=1, worker_2=1, helper_3=10))

    assert [(b.pid, b.prefix) for b in branches] == [(1, ""), (2, "├─ "), (10, "└─ "), (3, "   └─ ")]


def test_any_name_can_be_put_in_order() -> None:
    names = ["worker ²", "worker 10", f"worker {'9' * 5000}", "worker 2", "worker ٣"]

    assert sorted(names, key=natural)[:2] == ["worker 2", "worker 10"]
    assert [kind_of(name).number for name in names] == [None, 10, None, 2, None]


def test_tree_loses_nobody_in_a_circle_or_below_a_stranger() -> None:
    assert {b.pid for b in tree(views(a_1=2, b_2=1, c_3=999, d_4=4))} == {1, 2, 3, 4}


def test_folded_branches_count_what_they_hide() -> None:
    (branch,) = tree(views(main_1=None, a_2=1, b_3=2), Folding(folded=frozenset({1})))

    assert branch.hidden == 2


def test_layout_is_kept_while_nobody_comes_or_goes() -> None:
    layout, processes = Layout(), views(main_1=None, a_2=1)
    first = layout.branches(processes, Folding())

    assert layout.branches(dict(processes), Folding()) is first
    assert layout.branches(views(main_1=None), Folding()) is not first


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_columns_fit(width: int) -> None:
    planned = plan(width, 30, gpus=True)

    assert 2 + planned.role + sum(c.width + 1 for c in planned.columns) + 1 + planned.does <= max(width, 15)


def test_no_key_is_bound_twice() -> None:
    pages = (*APP_KEYS, *PAGE_KEYS, *ENVIRONMENT_KEYS)
    for table in ((*APP_KEYS, *MAIN_KEYS), pages, (*APP_KEYS, *SIGNAL_KEYS)):
        keys = [key for binding in bindings(table) for key in binding.key.split(",")]
        assert sorted(set(keys)) == sorted(keys)


def test_cells_counts_wide_characters() -> None:
    assert cells(plain("漢")) == 2
