from __future__ import annotations

import os
import shutil
import signal
import tempfile

from hypothesis import settings

pytest_plugins = ("tests.nvml.fixture", "tests.gpu.table")

# Nobody's own settings are to change what is tested.
os.environ["XDG_CONFIG_HOME"] = "/dev/null"

# Nor is what a job under `mpmon run` leaves to lie among the user's own files.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="mpmon-tests-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)


# A shell that puts the tests into the background has them ignore these, and so would every program they start.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# The same examples on every run, and no judgement of how fast a shared machine is.
settings.register_profile("tests", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile("few", settings.get_profile("tests"), max_examples=4)
settings.load_profile("tests")
