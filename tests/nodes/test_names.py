"""Names of machines, folded; commands that lead to them."""

from __future__ import annotations

import pytest

from mpmon.nodes.names import LONGEST, folded
from mpmon.nodes.transports.pods import Pods
from mpmon.nodes.transports.slurm import Slurm
from mpmon.nodes.transports.ssh import Ssh


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["n3"], "n3"),
        (["n3", "n1", "n2", "n8", "n3"], "n[1-3,8]"),
        (["n009", "n010", "login"], "n[009-010],login"),
        (["n9", "n10"], "n[9-10]"),
        (["a1-ib", "a2-ib", "b1"], "a[1-2]-ib,b1"),
        (["n099", "n100", "n101"], "n[099-101]"),
    ],
)
def test_names_are_folded_as_schedulers_do(names: list[str], said: str) -> None:
    assert folded(names) == said


def test_names_that_nothing_orders_are_counted() -> None:
    said = folded(f"train-{letter * 30}-x" for letter in "abcdefghijklmnopqrstuvwxyz")
    assert len(said) < LONGEST + 40
    assert said.endswith("others")


def test_commands_lead_to_a_node() -> None:
    assert Ssh("n17").commands("n17") == ("ssh n17",)
    enter, drain = Slurm("7.0").commands("n17")
    assert enter == "srun --jobid=7 --overlap --nodelist=n17 --nodes=1 --ntasks=1 --pty bash"
    assert drain == "scontrol update nodename=n17 state=drain reason='hung in job 7'"
    enter, describe = Pods("job=a", namespace="ml", container="main").commands("a-0")
    assert enter == "kubectl exec --stdin --tty --namespace=ml a-0 --container=main -- sh"
    assert describe == "kubectl describe pod --namespace=ml a-0"
