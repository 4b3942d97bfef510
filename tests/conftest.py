from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ("tests.nvml.fixture",)

# Nobody's own settings are to change what is tested.
os.environ["XDG_CONFIG_HOME"] = "/dev/null"

# The same examples on every run, and no judgement of how fast a shared machine is.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")
