"""What mpmon costs, beside what its peers cost, in one run on one machine.

`python -m tests.benchmarks` prints a Markdown table per part: look, live, gpus, keys, replay, start, harm, verdict, shim,
nodes;
soak only when it is named.
An absolute figure does not carry over to another machine or day, a ratio inside one table does;
so every table compares programs that took turns (A B A B …) in front of the same job, and shows medians.
"""
