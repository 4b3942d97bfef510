"""The modules a program has imported, and their names: `sys.modules` of its interpreter."""

from __future__ import annotations

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
    if runtime.layout.modules is None:
        raise Torn
    interpreter = objects.word(runtime.address + runtime.layout.interpreters)
    modules = objects.word(interpreter + runtime.layout.modules)
    if objects.type_name(modules) != b"dict":
        raise Torn
    found = objects.named(modules, module, MOST_MODULES)
    if not found:
        return None
    if objects.type_name(found) != b"module":
        raise Torn
    return objects.word(found + NAMESPACE)
