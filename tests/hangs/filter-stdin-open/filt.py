import logging
import sys

from events import say

log = logging.getLogger("filt")


def main():
    say("role", role="process filter")
    say("culprit", thread="MainThread")
    rows = []
    for line in sys.stdin:  # CULPRIT
        rows.append(line.rstrip().split("\t"))
    for r in sorted(rows, key=lambda r: int(r[0])):
        print("\t".join(r))


if __name__ == "__main__":
    main()
