"""Constraints for pip: of each package that mpmon needs at run time, the lowest version that pyproject.toml allows."""

from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

for needed in map(Requirement, requires("mpmon") or ()):
    if not needed.marker:  # those of the extras have one
        (lowest,) = (limit.version for limit in needed.specifier if limit.operator == ">=")
        print(f"{needed.name}=={lowest}")
