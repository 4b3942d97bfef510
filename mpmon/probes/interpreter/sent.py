"""The file of code that came from another process by value.

cloudpickle (3.1.3, `_code_reduce`) gives such code the file name `<dynamic-code>`, but keeps the `__file__` of its
original module among the function's globals (`_function_getstate`). Line numbers are those of that file.
"""

from __future__ import annotations

import struct

from mpmon.model import SENT_CODE
from mpmon.probes.interpreter.codes import LONGEST_TEXT, Code
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import TAGS, Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.walk import Link

_word = struct.Struct("=Q").unpack_from


def file_of(objects: Objects, layout: Layout, link: Link, code: Code) -> str:
    """The file of a call's code; for code that was sent, the file in which it was written, if known."""
    if code.file != SENT_CODE:
        return code.file
    try:
        module_globals = _word(link.text, layout.global_variables)[0] & ~TAGS
        found = objects.named(module_globals, b"__file__") if objects.type_name(module_globals) == b"dict" else None
        return (objects.text(found, LONGEST_TEXT) if found else "") or code.file
    except Torn:
        return code.file
