"""The modules a program has imported, and their names: `sys.modules` of its interpreter."""

from __future__ import annotations

from collections.abc import Collection

from mpmon.probes.interpreter.objects import Objects, Torn
from mpmon.probes.interpreter.runtime import Runtime

MOST_MODULES = 20_000

NAMESPACE = 16
"""PyModuleObject.md_dict, after PyObject_HEAD (Include/internal/pycore_moduleobject.h)."""


def names_of(objects: Objects, runtime: Runtime, module: bytes) -> int | None:
    """The dictionary of a module's names; `None` if it was not imported.

    Raises:
        Torn: it cannot be followed.
    """
    return names_of_all(objects, runtime, (module,)).get(module)


def names_of_all(objects: Objects, runtime: Runtime, modules: Collection[bytes]) -> dict[bytes, int]:
    """The dictionaries of the names of those of these modules that were imported.

    Raises:
        Torn: one cannot be followed.
    """
    if runtime.layout.modules is None:
        raise Torn
    interpreter = objects.word(runtime.address + runtime.layout.interpreters)
    imported = objects.word(interpreter + runtime.layout.modules)
    if objects.type_name(imported) != b"dict":
        raise Torn
    found = {name: module for name, module in objects.all_named(imported, modules, MOST_MODULES).items() if module}
    if any(objects.type_name(module) != b"module" for module in found.values()):
        raise Torn
    return {name: objects.word(module + NAMESPACE) for name, module in found.items()}
