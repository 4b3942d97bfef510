"""Does a thread, or the process that it is of, make progress?  Every judgement about that is made here.

That something runs shows nothing: a loop that tries again for ever runs too.  From the smallest to the largest:

- `motion`: one thread, by its counters and its looks: frozen, napping, spinning, moving;
- `rounds`: whether code that nobody called goes round in circles; `variables`: whether what a napping loop leads to changes;
- `life`: what a process did for others while it seems to go round in circles;
- `ticking`: who only wakes, looks in or writes a line, and sleeps again.

The first three are told by the past of one thread, the others need to know who is who.  Every number stands beside what it is
for, with the reason or the measurement that it rests on.
"""
