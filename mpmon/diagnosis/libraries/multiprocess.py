"""multiprocess, which datasets and pathos use: multiprocessing with dill."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(copies=(("multiprocess/", "multiprocessing/"),))
