"""Packages that are copies of parts of the standard library, function for function: see `libraries`."""

from __future__ import annotations

from functools import lru_cache

from mpmon.diagnosis.libraries import BUNDLES, COPIES

_PACKAGES = ("/site-packages/", "/dist-packages/")

_STANDARD = "/lib/python3.0/"
"""Begins the name of an original, as a file of the standard library of some Python."""


@lru_cache(maxsize=4096)
def known_as(file: str) -> str:
    """The path of the original of a file, as the standard library has it; of all others their own."""
    for folder in _PACKAGES:
        _, found, name = file.rpartition(folder)
        if found:
            for bundle in BUNDLES:
                name = name.removeprefix(bundle)
            for copy, original in COPIES:
                if name.startswith(copy):
                    return f"{_STANDARD}{original}{name[len(copy) :]}"
    return file
