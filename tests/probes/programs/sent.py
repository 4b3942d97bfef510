"""A function as cloudpickle (3.1.3) makes it in the process that it was sent to: its code names no file, its globals do."""

import sys
import types


def wait_for_word():
    print("stands", flush=True)
    sys.stdin.readline()


def sent(function):
    module_globals = {"__file__": "/jobs/train.py", "__builtins__": __builtins__, "sys": sys}
    return types.FunctionType(function.__code__.replace(co_filename="<dynamic-code>"), module_globals)


sent(wait_for_word)()
