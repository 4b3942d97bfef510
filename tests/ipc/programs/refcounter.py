"""A file of reference counts as torch makes it for CUDA memory, by torch's own at::RefcountedMapAllocator.

`set 3 1` gives slot 3 the count 1; `unlink` removes the file's name, as a cleaner would.
"""

import json
import os
import sys

import torch

SLOTS = 10000


def say(**facts):
    print(json.dumps(facts), flush=True)


storage = torch.UntypedStorage._new_using_filename_cpu(8 * SLOTS)
_, name, _ = storage._share_filename_cpu_()
counts = torch.empty(0, dtype=torch.int64).set_(storage, 0, (SLOTS,), (1,))
say(name=name.decode().rpartition("/")[2])
while words := sys.stdin.readline().split():
    if words[0] == "set":
        counts[int(words[1])] = int(words[2])
    elif words[0] == "unlink":
        os.unlink("/dev/shm/" + name.decode().rpartition("/")[2])
    say(done=words)
