"""Constraints for pip: of each package that mpmon or an extra of it needs, the lowest version that pyproject.toml allows.

One that is pinned (torch) has none lower.
"""

from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

needed = {row.name: row.specifier for row in map(Requirement, requires("mpmon") or ())}
for name, limits in sorted(needed.items()):
    lowest = [limit.version for limit in limits if limit.operator == ">="]
    if lowest:
        print(f"{name}=={lowest[0]}")
