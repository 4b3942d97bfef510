"""Control groups of both versions, on a machine and in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpmon.probes.cgroups import CgroupTable, Hierarchy, hierarchy
from tests.builders import process
from tests.probes.tree import Tree, TreeProc

V1_MOUNT = "35 31 0:32 {root} {folder} rw,relatime - cgroup cgroup rw,memory\n"
V2_MOUNT = "35 31 0:32 {root} {folder} rw,relatime - cgroup2 cgroup2 rw\n"
OTHERS = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"


class Machine:
    """A tree of /proc whose control groups are folders."""

    def __init__(self, tree: Tree, mount: str, root: str = "/") -> None:
        self.folder = tree.root / "cg roup"
        self.folder.mkdir()
        (tree.root / "self").mkdir()
        name = str(self.folder).replace(" ", "\\040")
        (tree.root / "self/mountinfo").write_text(OTHERS + mount.format(root=root, folder=name))
        self.proc = TreeProc(tree.root)
        self.table = CgroupTable(self.proc)

    def write(self, path: str, **files: str) -> None:
        folder = self.folder / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)

    def rows(self, *paths: str, now: float = 1.0):
        return self.table.look([process(number, cgroup=path) for number, path in enumerate(paths, 1)], now)


def test_a_group_of_version_2(tree: Tree) -> None:
    machine = Machine(tree, V2_MOUNT)
    machine.write("job/step", memory__events="oom 3\noom_kill 2\n", memory__max="max\n", memory__peak="900\n")
    machine.write("job", memory__max="1000\n", cpu__max="150000 100000\n")
    (row,) = machine.rows("/job/step", "/job/step")
    assert (row.path, row.oom_kills, row.limit_bytes, row.peak_bytes, row.cpus) == ("/job/step", 2, 1000, 900, 1.5)
    assert (row.oom_kill_seen_at, row.reasons) == (None, {})


def test_a_group_of_version_1(tree: Tree) -> None:
    machine = Machine(tree, V1_MOUNT)
    machine.write(
        "job", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        memory__limit_in_bytes="9223372036854771712\n", memory__max_usage_in_bytes="70\n",
    )  # fmt: skip
    (row,) = machine.rows("/job")
    assert (row.oom_kills, row.limit_bytes, row.peak_bytes, row.cpus) == (1, None, 70, None)
    assert row.reasons["limit_bytes"] == "no limit is set"


def test_a_counter_that_grows(tree: Tree) -> None:
    machine = Machine(tree, V2_MOUNT)
    machine.write("job", memory__events="oom_kill 0\n")
    (first,) = machine.rows("/job", now=1.0)
    assert machine.rows("/job", now=2.0)[0] is first
    machine.write("job", memory__events="oom_kill 1\n", memory__peak="5\n")
    (row,) = machine.rows("/job", now=3.0)
    assert (row.oom_kills, row.oom_kill_seen_at, row.peak_bytes) == (1, 3.0, 5)
    (machine.folder / "job/memory.events").unlink()
    assert machine.rows(now=4.0)[0] is row


def test_a_container_sees_its_own_group(tree: Tree) -> None:
    machine = Machine(tree, V1_MOUNT, root="/docker/af12")
    machine.write("", memory__oom_control="oom_kill 4\n")
    own, other = machine.rows("/docker/af12", "/docker/bb")
    assert (own.oom_kills, other.oom_kills) == (4, None)
    assert "not below" in other.reasons["oom_kills"]


def test_a_kernel_that_does_not_count(tree: Tree) -> None:
    (row,) = Machine(tree, V2_MOUNT).rows("/")
    assert row.oom_kills is None
    assert row.reasons["oom_kills"].endswith("memory.events does not tell")


def test_a_machine_without_control_groups(tree: Tree) -> None:
    assert hierarchy(TreeProc(tree.root)) is None
    (row,) = CgroupTable(TreeProc(tree.root)).look([process(cgroup="/job")], 1.0)
    assert set(row.reasons.values()) == {"no control groups are mounted here"}
    assert CgroupTable(TreeProc(tree.root)).look([process()], 1.0) == ()


@pytest.mark.parametrize(
    ("root", "path", "directory"),
    [("/", "/", "/sys/cg"), ("/", "/a/b", "/sys/cg/a/b"), ("/a", "/a", "/sys/cg"), ("/a", "/a/b", "/sys/cg/b"),
     ("/a", "/ab", None), ("/", "/../other", None), ("/", "", None)],
)  # fmt: skip
def test_where_a_group_lies(root: str, path: str, directory: str | None) -> None:
    assert Hierarchy("/sys/cg", root, 2).directory(path) == directory


def test_the_machine_itself_can_be_asked() -> None:
    from mpmon.probes.files import Proc

    found = hierarchy(Proc())
    assert found is None or Path(found.folder).is_dir()
