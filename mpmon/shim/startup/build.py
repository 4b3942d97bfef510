"""Building mpmon: `mpmon_shim.pth` goes beside the packages, where `site` runs its line at the start of every interpreter.

While `MPMON_SHIM` is not set, that line costs one environment lookup.
Named in pyproject.toml; used at build time only.
"""

from __future__ import annotations

import os
from typing import Any

from setuptools.command.build_py import build_py

HOOK = os.path.join("mpmon", "shim", "startup", "mpmon_shim.pth")


class BuildWithHook(build_py):
    """Builds the packages as usual, and puts the `.pth` file beside them."""

    def run(self) -> None:
        """As setuptools' command."""
        super().run()
        self.copy_file(HOOK, os.path.join(self._beside(), os.path.basename(HOOK)))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # noqa: FBT001, FBT002  as the command of setuptools
        """The files that `run` creates."""
        made = super().get_outputs(include_bytecode)
        return made if self.editable_mode else [*made, os.path.join(self.build_lib, os.path.basename(HOOK))]

    def _beside(self) -> str:
        """Where the packages go; in an editable install, which leaves them in place, the folder that becomes the wheel."""
        if not self.editable_mode:
            return self.build_lib
        install: Any = self.get_finalized_command("install")
        return install.install_lib
