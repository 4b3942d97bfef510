"""A DataLoader worker waits a day for a server that said "too busy, come back later"."""

from __future__ import annotations

import time

from mpmon.demo.handshake import ready
from mpmon.demo.loading import DataLoader

OVERLOADED = 503


def request(photo: int) -> tuple[int, float]:
    """What the server answers: status and the seconds of its Retry-After header."""
    return (OVERLOADED, 86400.0) if photo == 37 else (200, 0.0)


def download(photo: int) -> float:
    """One photo; after an overload, wait as long as the server asks."""
    status, retry_after = request(photo)
    if status == OVERLOADED:
        ready()
        time.sleep(retry_after)
    return photo / 400


class Photos:
    """Photos behind a slow server."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, photo: int) -> float:
        if photo >= len(self):
            raise IndexError(photo)
        return download(photo)


def main() -> None:
    """Train on the photos."""
    mean = 0.0
    for batch in DataLoader(Photos(), batch_size=4, num_workers=2):
        mean += float(sum(batch)) / 4


if __name__ == "__main__":
    main()
