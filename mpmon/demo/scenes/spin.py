"""A DataLoader worker looks for a patch with ink on pages that have none, round and round."""

from __future__ import annotations

from mpmon.demo.handshake import ready
from mpmon.demo.loading import DataLoader

BLANK_PAGES = range(110, 114)


class Patches:
    """Pieces of scanned pages; blank ones are skipped."""

    def __len__(self) -> int:
        return 300

    def has_ink(self, patch: int) -> bool:
        """Whether there is something to learn from."""
        return patch not in BLANK_PAGES

    def next_patch(self, patch: int) -> int:
        """The next one, which within the blank pages is a blank one again."""
        if patch in BLANK_PAGES:
            return BLANK_PAGES.start + (patch + 1 - BLANK_PAGES.start) % len(BLANK_PAGES)
        return patch + 1

    def pick_patch(self, patch: int) -> int:
        """The first patch with ink from here on."""
        if patch == BLANK_PAGES.start:
            ready()
        while not self.has_ink(patch):
            patch = self.next_patch(patch)
        return patch

    def __getitem__(self, patch: int) -> float:
        if patch >= len(self):
            raise IndexError(patch)
        return float(self.pick_patch(patch))


def main() -> None:
    """Train on the patches."""
    mean = 0.0
    for batch in DataLoader(Patches(), batch_size=5, num_workers=2):
        mean += float(sum(batch)) / 5


if __name__ == "__main__":
    main()
