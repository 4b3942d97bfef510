"""A backward pass inside of a backward pass, so deep that autograd runs it in a thread of its own, in which a hook waits, or
works: `deep_backward.py WORKS`.
"""

import os
import sys
import threading

import torch
from ready import say

DEEPEST = 70  # torch::autograd::MAX_DEPTH is 60.


class Again(torch.autograd.Function):
    @staticmethod
    def forward(_, x, depth):
        _.depth = depth
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        inner(_.depth + 1)
        return gradient, None


def inner(depth):
    if depth == DEEPEST:
        say(ready=os.getpid(), helper=threading.get_native_id())
        total = 0.0
        for step in range(10**12 if sys.argv[1] == "1" else 0):
            total += step
        threading.Event().wait()  # STUCK
    with torch.enable_grad():
        Again.apply(torch.ones(1, requires_grad=True), depth).sum().backward()


inner(0)
