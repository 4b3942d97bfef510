"""The modules a program has imported, and their names: `sys.modules` of its interpreter."""

from __future__ import annotations

from collections.abc import Collection

from mpmon.probes.interpreter.hashes import find
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import Runtime

MOST_MODULES = 20_000

NAMESPACE = 16
"""PyModuleObject.md_dict, after PyObject_HEAD (Include/internal/pycore_moduleobject.h)."""


def names_of(objects: Objects, runtime: Runtime, module: bytes) -> int | None:
    """The dictionary of a module's names; `None` if it was not imported.

    Raises:
        Torn: it cannot be followed.
    """
    found = _imported(objects, runtime, (module,)).get(module)
    if not found:
        return None
    if objects.type_name(found) != b"module":
        raise Torn
    return objects.word(found + NAMESPACE)


def names_of_all(objects: Objects, runtime: Runtime, modules: Collection[bytes]) -> list[int]:
    """The dictionaries of the names of those of these modules that were imported and are plain modules.

    Raises:
        Torn: they cannot be followed.
    """
    found = _imported(objects, runtime, modules).values()
    return [objects.word(module + NAMESPACE) for module in found if module and objects.type_name(module) == b"module"]


def _imported(objects: Objects, runtime: Runtime, modules: Collection[bytes]) -> dict[bytes, int]:
    """Those of these modules that are in `sys.modules`. Raises `Torn`."""
    if runtime.layout.modules is None:
        raise Torn
    interpreter = objects.word(runtime.address + runtime.layout.interpreters)
    found = objects.word(interpreter + runtime.layout.modules)
    if objects.type_name(found) != b"dict":
        raise Torn
    table = objects.table(found)
    if table is None or runtime.hashes is None or not runtime.hashes.fit(objects, table):
        return objects.all_named(found, modules, MOST_MODULES)
    values = {name: find(objects, table, name, runtime.hashes.of(name)) for name in modules}
    return {name: value for name, value in values.items() if value}
