"""Simulators in processes of their own, which count their steps in shared memory."""

import time


def serve(number, wanted, done, simulate):
    while True:
        # A step when one is wanted.
        while done[number] >= wanted.value:

            time.sleep(0.001)
        simulate(number, done[number])
        done[number] += 1


class VecEnv:
    def __init__(self, ctx, count, simulate):
        self.wanted = ctx.RawValue("i", 0)
        self.done = ctx.RawArray("i", count)
        rest = self.wanted, self.done, simulate
        self.processes = [ctx.Process(target=serve, args=(number, *rest), daemon=True) for number in range(count)]
        for process in self.processes:
            process.start()

    def wait(self):
        """Until all have done what is wanted."""
        while min(self.done) < self.wanted.value:




            time.sleep(0.001)

    def step(self):
        """One step of all."""
        self.wanted.value += 1
        self.wait()
