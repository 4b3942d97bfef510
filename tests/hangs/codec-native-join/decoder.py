"""A decoder with a thread of its own in C, as video libraries have one."""

import ctypes

LIBC = ctypes.CDLL(None)


class Decoder:
    def __init__(self):
        self.thread = ctypes.c_ulong()
        # Its thread waits for a signal that tells it to end: pause(2).
        start = ctypes.cast(LIBC.pause, ctypes.c_void_p)
        LIBC.pthread_create(ctypes.byref(self.thread), None, start, None)

    def decode(self, name):
        return len(name)

    def close(self):
        LIBC.pthread_join(self.thread, None)  # CULPRIT

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
