"""The main thread waits in C code with the GIL, which another thread needs."""

import ctypes
import os
import threading
import time

from ready import say


def tick():
    while True:
        time.sleep(0.01)


library, semaphore = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
library.sem_init(semaphore, 0, 0)
threading.Thread(target=tick, name="ticker", daemon=True).start()
say(ready=os.getpid())
library.sem_wait(semaphore)  # STUCK
