"""Two ranks under a launcher that starts them again: one of them fails once, as soon as a file is there."""

import os
import sys
import time

from ready import say


def main(file):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    os.execv(sys.executable, [sys.executable, *launcher, "--monitor-interval=0.1", __file__, file])


def work(file):
    rank, again = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"] == "1"
    say(**{f"{'again' if again else 'first'}{rank}": os.getpid()})
    while again or rank == "0" or not os.path.exists(file):
        time.sleep(0.05)
    sys.exit(3)


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(sys.argv[1])
    else:
        main(sys.argv[1])
