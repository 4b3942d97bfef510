"""How long the text is that a call matches with a regular expression, which it does in C, with the GIL.

A method of a pattern has the pattern and its arguments beside each other on the value stack of its caller; in the functions of
the module `re`, that is the function itself (Lib/re/__init__.py; Lib/re.py in Python 3.10).
"""

from __future__ import annotations

from itertools import takewhile

from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import Objects

METHODS = frozenset({"findall", "fullmatch", "match", "search", "split", "sub", "subn"})
"""Of `re.Pattern`, those that match."""

PATTERN, TEXTS = b"re.Pattern", frozenset({b"str", b"bytes"})

LENGTH_AT = 16
"""PyASCIIObject.length, and ob_size of `bytes`."""

MOST_ARGUMENTS = 4


def matched_in(objects: Objects, frame: FrameInMemory) -> int | None:
    """The number of characters, or bytes, of the longest text that a call, the innermost of its thread, has given to a method of
    a pattern; `None` if it matches nothing. Raises `Torn`.
    """
    if METHODS.isdisjoint(frame.names):
        return None
    stack = frame.upper[::-1]
    kinds = [objects.kind(value) for value in stack]
    if PATTERN not in kinds:
        return None
    after = kinds.index(PATTERN) + 1
    arguments = takewhile(bool, kinds[after : after + MOST_ARGUMENTS])
    texts = [stack[after + place] for place, kind in enumerate(arguments) if kind in TEXTS]
    return max((objects.word(text + LENGTH_AT) for text in texts), default=None)
