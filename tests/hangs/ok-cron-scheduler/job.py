import subprocess
import sys

from events import say
from sched import Job, Scheduler


def rotate():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3)"], check=True)
    say("progress", job="rotate")


def vacuum():
    subprocess.run([sys.executable, "-c", "print(sum(range(10**5)))"], check=True, stdout=subprocess.DEVNULL)
    say("progress", job="vacuum")


def main():
    say("root")
    say("role", role="main")
    s = Scheduler()
    s.add(Job("rotate", 6, rotate))
    s.add(Job("vacuum", 18, vacuum))
    say("settled")
    s.run()


if __name__ == "__main__":
    main()
