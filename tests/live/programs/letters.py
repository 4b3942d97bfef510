"""Threads that hold locks in functions whose names are written in other letters than ASCII's, and a child named so too."""

import multiprocessing
import os
import sys
import threading
import types

from ready import say, wait_for_word

END = threading.Event()


def größe(lock, everybody):
    with lock:
        everybody.wait()
        END.wait()


def функция(lock, everybody):
    with lock:
        everybody.wait()
        END.wait()


def 函数(lock, everybody):  # noqa: N802  letters without a case
    with lock:
        everybody.wait()
        END.wait()


def plain(lock, everybody):
    with lock:
        everybody.wait()
        END.wait()


def renamed(name):
    """The function `plain` by a name that no source can give it: there 𝒇 would become f."""
    names = {"co_name": name} if sys.version_info < (3, 11) else {"co_name": name, "co_qualname": name}
    return types.FunctionType(plain.__code__.replace(**names), globals())


def lasts(reads, writes):
    """Until the parent ends."""
    os.close(writes)
    os.read(reads, 1)


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=lasts, args=os.pipe(), name="größter 函数 𝒇")
    functions = [größe, функция, 函数, plain, renamed("𝒇x"), renamed("half of \ud835")]
    everybody = threading.Barrier(len(functions) + 1)
    child.start()
    for function in functions:
        threading.Thread(target=function, args=(threading.Lock(), everybody), daemon=True).start()
    everybody.wait()
    say(child=child.pid)
    wait_for_word()
