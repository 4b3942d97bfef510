"""The helper process: makes the calls it receives, each in a thread that can be abandoned.

The threads take turns at listening: the thread that receives a request makes the call itself while another one listens.
So a call that hangs costs a thread and nothing else, and any other call costs no change of threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from mpmon import heap
from mpmon.probes.aside.wire import Answer, Place, Question, Unpacker, packed
from mpmon.start import end_with

CHUNK = 1 << 16


class Helper:
    """Answers requests from one descriptor on another."""

    def __init__(self, questions: int, answers: int) -> None:
        self._questions, self._answers = questions, answers
        self._turn = threading.Lock()
        """Held by the thread that listens."""
        self._guard = threading.Lock()
        self._waiting = 0
        """Threads that wait for their turn."""
        self._writing = threading.Lock()
        self._unpacker = Unpacker()
        self._heard: list[Any] = []
        self._callers: dict[int, int] = {}
        """Threads in a call, by the call's number."""

    def serve(self) -> None:
        """Listen and answer until the input ends."""
        while True:
            with self._turn:
                question = self._next()
                if question is None:
                    # Without the interpreter's shutdown, which waits for threads.
                    os._exit(0)
                self._hand_over()
            self._answer(question)
            with self._guard:
                self._waiting += 1

    def _hand_over(self) -> None:
        """Let another thread listen from now on."""
        with self._guard:
            if self._waiting:
                self._waiting -= 1
                return
        threading.Thread(target=self.serve, daemon=True).start()

    def _next(self) -> Question | None:
        while True:
            while not self._heard:
                chunk = os.read(self._questions, CHUNK)
                if not chunk:
                    return None
                self._heard = self._unpacker.feed(chunk)
            message = self._heard.pop(0)
            if isinstance(message, Question):
                return message
            self._say(packed(Place(message.number, self._callers.get(message.number, 0))))

    def _answer(self, question: Question) -> None:
        self._callers[question.number] = threading.get_native_id()
        began = time.thread_time()
        result, raised = None, None
        try:
            result = question.function(*question.given, **question.named)
        except Exception as problem:
            raised = problem
        del self._callers[question.number]
        self._say(_frame(question.number, result, raised, time.thread_time() - began))

    def _say(self, frame: bytes) -> None:
        left = memoryview(frame)
        with self._writing:
            while left:
                left = left[os.write(self._answers, left) :]


def _frame(number: int, result: Any, raised: BaseException | None, cpu_s: float) -> bytes:
    try:
        return packed(Answer(number, result, raised, cpu_s))
    except Exception as defect:
        return packed(Answer(number, None, RuntimeError(f"cannot be sent: {defect!r:.200}"), cpu_s))


def main(parent: int) -> None:
    """Serve the process that started this one, and end with it."""
    end_with(parent, b"mpmon-aside")
    heap.give_back()
    answers = os.dup(1)
    # Output of libraries is discarded.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    Helper(0, answers).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
