from __future__ import annotations

from hypothesis import settings

# The same examples on every run, and no judgement of how fast a shared machine is.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")
