import json
import os
import multiprocessing as mp
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


CTX = mp.get_context("fork")


class Roster:
    """Today's plan and the condition that says it is there."""

    def __init__(self):
        self.cond = CTX.Condition()
        self.plan = CTX.Value("i", 0)

    def announce(self, plan):
        with self.cond:
            self.plan.value = plan
            self.cond.notify_all()

    def wait(self):
        with self.cond:
            self.cond.wait()  # CULPRIT
            return self.plan.value


class Depot:
    def __init__(self):
        self.reports = CTX.SimpleQueue()
        self.shifts = CTX.SimpleQueue()


def planner_main(roster, depot):
    say("role", role="process planner")
    while (shift := depot.shifts.get()) is not None:
        roster.announce(100 + shift)


def driver_main(roster, depot):
    say("role", role="process driver")
    warm_up_engine()
    say("culprit", thread="MainThread")
    settle(3)
    plan = roster.wait()
    depot.reports.put(f"plan {plan} driven")


def warm_up_engine():
    time.sleep(0.8)


class Dispatcher:
    def __init__(self, depot):
        self.depot = depot

    def day(self, shift):
        self.depot.shifts.put(shift)
        return self.depot.reports.get()

    def week(self):
        for shift in range(1, 6):
            print(self.day(shift), flush=True)


def dispatch_main(depot):
    say("role", role="process dispatcher")
    say("waiter")
    settle(3)
    Dispatcher(depot).week()


def clock_main():
    say("role", role="process clock")
    while True:
        time.sleep(1800)


def supervise(procs):
    while any(p.is_alive() for p in procs):
        procs[0].join(0.5)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    roster, depot = Roster(), Depot()
    CTX.Process(target=clock_main, daemon=True).start()
    CTX.Process(target=planner_main, args=(roster, depot), daemon=True).start()
    CTX.Process(target=driver_main, args=(roster, depot), daemon=True).start()
    d = CTX.Process(target=dispatch_main, args=(depot,))
    d.start()
    supervise([d])


if __name__ == "__main__":
    main()
