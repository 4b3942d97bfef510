"""Put faults into healthy jobs: `python -m tests.faults [--seeds FIRST END] [--only WORDS]`."""

from __future__ import annotations

import argparse
import statistics

from tests.faults.injecting import FAULTS, Outcome, inject


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Faults in healthy jobs that are watched."
    )
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, len(FAULTS)), metavar=("FIRST", "END"))
    parser.add_argument("--only", default="", help="faults whose words contain this: 'train', 'is stopped'")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only in str(fault)]
    outcomes: list[Outcome] = []
    for seed in range(*options.seeds):
        outcomes.append(inject(faults[seed % len(faults)], seed))
        _print(outcomes[-1], seed)
    took = [row.after_s for row in outcomes if row.after_s is not None]
    print(
        f"{len(outcomes)} faults: {len(took)} hung, {sum(row.named for row in outcomes)} named, "
        f"{sum(row.at_line for row in outcomes)} at the line, {sum(row.right for row in outcomes)} right; "
        f"{sum(row.early for row in outcomes)} rounds hung too early, {sum(row.changed for row in outcomes)} changed, "
        f"{sum(row.late for row in outcomes)} too late"
    )
    if took:
        print(f"to the verdict: median {statistics.median(took):.1f} s, at most {max(took):.1f} s")


def _print(row: Outcome, seed: int) -> None:
    finding = row.finding
    said = f"{finding.cause} ({finding.certainty.value}): {finding.summary}" if finding else row.because
    after = "not hung" if row.after_s is None else f"{row.after_s:.1f} s"
    marks = f"early {row.early}, changed {row.changed}, late {row.late}"
    print(f"{'right' if row.right else 'WRONG'} {seed:4} {row.fault!s:26} {after:9} {marks}: {said[:160]}", flush=True)


if __name__ == "__main__":
    main()
