"""torchrun is told of two nodes, and nobody starts the second one."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from torch.distributed.run import main


def told(**fact: object) -> None:
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"pid": os.getpid(), **fact}) + "\n")


def tell() -> None:
    told(event="root")
    told(event="role", role="launcher")
    told(event="culprit")
    time.sleep(6.0)
    told(event="settled")


if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    main(["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *sys.argv[1:], "train.py"])  # CULPRIT
