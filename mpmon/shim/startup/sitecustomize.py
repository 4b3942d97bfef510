"""Run by `site` at the start of every interpreter that has this folder on PYTHONPATH: `mpmon run` puts it there.

It loads the shim's package from its own folder, under a separate name: the interpreter may not have mpmon, and nothing else of
mpmon's environment may become importable. Then it removes the folder from `sys.path` and runs the `sitecustomize` it shadows.
Any Python may run this, so this file avoids newer syntax.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def start_shim():  # noqa: ANN201  old Pythons know no annotations
    """Load the package next to this folder as `mpmon_shim`, and turn it on."""
    if sys.version_info < (3, 10) or not os.environ.get("MPMON_RUN_DIR") or hasattr(sys, "_mpmon_shim"):
        return
    from importlib.machinery import ModuleSpec, SourceFileLoader

    package = os.path.dirname(FOLDER)
    file = os.path.join(package, "__init__.py")
    loader = SourceFileLoader("mpmon_shim", file)
    spec = ModuleSpec("mpmon_shim", loader, origin=file, is_package=True)
    spec.submodule_search_locations = [package]
    spec.has_location = True
    module = type(sys)("mpmon_shim")
    module.__spec__, module.__path__, module.__file__, module.__package__ = spec, [package], file, "mpmon_shim"
    sys.modules["mpmon_shim"] = module
    loader.exec_module(module)
    module.install()


def run_hidden():  # noqa: ANN201
    """Run what this interpreter would have run without mpmon; `site` reports its exceptions as usual."""
    sys.path[:] = [place for place in sys.path if os.path.normpath(place) != FOLDER]
    del sys.modules["sitecustomize"]
    __import__("sitecustomize")


def say_why_not():  # noqa: ANN201
    """Write the current exception as one line to standard error, if there is one."""
    try:
        sys.stderr.write("mpmon: shim off: {!r}\n".format(sys.exc_info()[1]))  # noqa: UP032  for old Pythons
    except Exception:
        return


try:
    start_shim()
except Exception:
    say_why_not()
run_hidden()
