"""Packages that are copies of parts of the standard library, function for function: see `libraries`."""

from __future__ import annotations

from functools import lru_cache

from mpmon.diagnosis.libraries import BUNDLES, COPIES

_PACKAGES = ("/site-packages/", "/dist-packages/")

_STANDARD = "/lib/python3.0/"
"""Prefix of an original's name, as a file of the standard library of some Python."""


@lru_cache(maxsize=4096)
def known_as(file: str) -> str:
    """The standard library's path of the file that this one copies; any other file's own path."""
    for folder in _PACKAGES:
        _, found, name = file.rpartition(folder)
        if found:
            for bundle in BUNDLES:
                name = name.removeprefix(bundle)
            for copy, original in COPIES:
                if name.startswith(copy):
                    return f"{_STANDARD}{original}{name[len(copy) :]}"
    return file
