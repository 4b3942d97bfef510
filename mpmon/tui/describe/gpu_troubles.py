"""What is wrong with a GPU itself, in a few words each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.model import Gpu
    from mpmon.tui.line import Span
    from mpmon.tui.scene import Scene

LIST = "gpu_processes"
"""In `Gpu.reasons`: why it is not known who is on the device."""


def troubles(scene: Scene, gpu: Gpu) -> Iterator[Span]:
    """What is wrong with the device itself, the worst first."""
    if gpu.blocked_since is not None:
        yield (f"driver call blocks {fmt.age(scene.since(gpu.blocked_since))}", "bad")
    elif gpu.problem:
        yield (_in_short(gpu.problem), "bad")
    if gpu.xids:
        newest = max(gpu.xids, key=lambda xid: xid.seen_at)
        more = f" +{len(gpu.xids) - 1}" if len(gpu.xids) > 1 else ""
        yield (f"XID {newest.number}{more} {fmt.short_age(scene.since(newest.seen_at))} ago", "bad")
    if gpu.recovery_action not in (None, "none"):
        yield (f"driver asks for {gpu.recovery_action}", "bad")
    if gpu.ecc_uncorrected:
        yield (f"ECC {gpu.ecc_uncorrected} uncorrected", "bad")


def _in_short(problem: str) -> str:
    """`lost` for "the GPU is lost: it does not answer …"."""
    return problem.partition(":")[0].removeprefix("the GPU ").removeprefix("is ")
