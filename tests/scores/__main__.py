"""Print the scores: `python -m tests.scores [--misses]`."""

from __future__ import annotations

import argparse

from tests.scores.scores import scores


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scores", description="Scores of the structure of the diagnosis."
    )
    parser.add_argument("--misses", action="store_true", help="name the cases behind each number")
    options = parser.parse_args()
    for score in scores():
        print(f"{score.name:14} {score.bad:5g} of {score.of:3}  {score.means}")
        for miss in score.misses if options.misses else ():
            print(f"    {miss}")


if __name__ == "__main__":
    main()
