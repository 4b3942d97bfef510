"""Whose code a frame is."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.stacks.frames import bare, calls, has, innermost_user, is_machinery, is_user
from tests.builders import PACKAGES, frame, stack

USER = [
    "/home/ada/cats/train.py",
    "train.py",
    "/usr/local/bin/train.py",
    "/home/ada/lib/model.py",
    "/srv/torch/run.py<dynamic-code>",
]
LIBRARY = [
    "/usr/lib/python3.11/site-packages/requests/api.py",
    "/usr/lib/python3/dist-packages/yaml/__init__.py",
    "/opt/venv/lib64/python3.12/site-packages/numpy/core.py",
]
MACHINERY = [
    "/usr/lib/python3.11/threading.py",
    "/usr/lib64/python3.10/multiprocessing/queues.py",
    "/opt/conda/lib/python3.13t/selectors.py",
    "/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py",
    "/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
    "<string>",
    "<eval_with_key>.7",
    "<frozen importlib._bootstrap>",
    "",
]


@pytest.mark.parametrize("file", USER)
def test_the_user_s_code(file: str) -> None:
    assert is_user(file)
    assert not is_machinery(file)


@pytest.mark.parametrize("file", LIBRARY)
def test_a_library_is_neither(file: str) -> None:
    assert not is_user(file)
    assert not is_machinery(file)


@pytest.mark.parametrize("file", MACHINERY)
def test_machinery(file: str) -> None:
    assert is_machinery(file)
    assert not is_user(file)


@pytest.mark.parametrize("function", ["get", "Queue.get", "outer.<locals>.Queue.get"])
def test_functions_are_compared_by_their_last_name(function: str) -> None:
    assert bare(function) == "get"
    assert calls(frame(f"multiprocessing/queues.py:3 {function}"), "multiprocessing/queues.py", ["get"])


def test_a_function_of_the_same_name_elsewhere() -> None:
    assert not calls(frame("queues.py:3 get"), "multiprocessing/queues.py", ["get"])


def test_the_line_to_look_at_is_the_user_s_innermost() -> None:
    row = stack(
        "main", "lib/socket.py:294 recv", "site-packages/requests/api.py:9 get", "job.py:20 download", "job.py:9 main"
    )
    assert innermost_user(row) == frame("job.py:20 download")


def test_without_any_it_is_the_library_s_innermost() -> None:
    row = stack("main", "lib/socket.py:294 recv", "site-packages/requests/api.py:9 get", "lib/threading.py:9 run")
    assert innermost_user(row) == frame("site-packages/requests/api.py:9 get")


def test_else_the_innermost_of_all() -> None:
    assert innermost_user(stack("main", "lib/socket.py:294 recv")) == frame("lib/socket.py:294 recv")
    assert innermost_user(stack("main")) is None


def test_whether_a_stack_has_a_frame() -> None:
    row = stack("main", "job.py:2 f", "torch/utils/data/_utils/worker.py:3 _worker_loop")
    assert has(row, "torch/utils/data/_utils/worker.py", ["_worker_loop"])
    assert not has(row, "multiprocessing/pool.py", ["worker"])


def test_what_starts_the_program_of_a_package_is_not_the_user_s_code() -> None:
    rows = stack("main", f"{PACKAGES}/uvicorn/server.py:69 Server.serve", "/venv/bin/uvicorn:8 <module>")
    frame = innermost_user(rows)
    assert frame is not None
    assert (frame.file.rpartition("/")[2], is_user("/venv/bin/uvicorn"), is_user("/home/ada/bin/train.py")) == (
        "server.py", False, True,
    )  # fmt: skip
