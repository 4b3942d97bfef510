"""Nothing is wrong: workers deliver, the trainer computes."""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.demo.handshake import ready
from mpmon.demo.loading import DataLoader

WARM_AFTER = 3


class Samples:
    """Samples that take a moment to make."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, sample: int) -> float:
        if sample >= len(self):
            raise IndexError(sample)
        return sum(k * sample % 7 for k in range(2000)) / 2000


def train_step(batch: Iterable[float], weight: float) -> float:
    """Compute for some tens of milliseconds."""
    target = float(sum(batch))
    for _ in range(300_000):
        weight -= 1e-6 * (weight - target)
    return weight


def train_epoch(weight: float) -> float:
    """Once over the samples."""
    for step, batch in enumerate(DataLoader(Samples(), batch_size=8, num_workers=2)):
        weight = train_step(batch, weight)
        if step == WARM_AFTER:
            ready()
    return weight


def main() -> None:
    """Train until somebody ends it."""
    weight = 0.0
    while True:
        weight = train_epoch(weight)


if __name__ == "__main__":
    main()
