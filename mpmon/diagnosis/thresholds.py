"""Every time, share and count that decides a diagnosis, with its reason or the measurement it rests on.

Rounds are a second apart if something may be wrong and two if all is well (`mpmon.session.cadence`); what is said of
two samples refers to those seconds. Recordings of hangs end some ten seconds after they began, so they tolerate half of
a time better than twice of it.

How much depends on a number is measured: `python -m tests.scores.thresholds` replays all recordings with another value.
`Recordings: 0 halved, 1 doubled, 2 at the least, 3 unbounded` tells for how many of 215 the verdict, cause or suspects
then differ, at the end, or for a healthy job at any moment; the least is 1 for a count, else next to nothing. What
guards jobs that run for hours, GPUs or clusters cannot show in such recordings.

What a remark needs, and how much of something is shown, is defined next to the remark and to what is shown.
"""

from __future__ import annotations

# How long something must stand still

PATIENCE_S = 5.0
"""Seconds a waiter must have stood still before it is called hung, or slow if its target makes progress. Also how long
an answer must have been the same, and how long a program that shows only its system calls must have been polling; after
as long without growth, memory no longer grows. Shorter pauses of a healthy job are not reported. Recordings: 6 halved,
149 doubled, 11 at the least, 157 unbounded.
"""

RUNNING_PATIENCE_S = 7.0
"""The same, seconds, for a thread that runs without making progress: a long computation looks like that for a while. It
must have been seen unchanged this long if it was seen to make progress before; all ranks that keep a GPU busy must have
stood still this long. Recordings: 0 halved, 24 doubled, 2 at the least, 26 unbounded.
"""

OPEN_PATIENCE_S = 30.0
"""The same, seconds, for a standstill that began while mpmon watched and that somebody unknown may end: a server outside the
job, whoever opens a named pipe, a thread that sleeps. Whoever starts mpmon on a job that stands already suspects a hang; one
that was seen to make progress most often just waits for something slow. Recordings: none, as they begin after the hang.
"""

FROM_START_S = 3.0
"""If processes were younger than this many seconds when mpmon came, it came with them, as in `mpmon run`, and nobody suspects a
hang yet: what waits for somebody outside the job counts as having begun to while mpmon watched. Recordings: none, as they
begin later.
"""

STOPPED_PATIENCE_S = 10.0
"""The same, seconds, if a process was stopped by a signal: who limits its share of a CPU lets it continue sooner.
Recordings: none, for the same reason.
"""

STOPS_AGAIN = 2
"""Times as long as it was stopped before, a process that was let continue may be stopped once more before that counts: who
limits its share of a CPU, such as cpulimit, keeps its rhythm. Recordings: none.
"""

SHORT_TEXT = 1024
"""Most characters of a text that a regular expression is matched against which make a long match one that backtracks without
end: a step takes some ten nanoseconds, so time that grows with the cube of such a text stays below a few seconds.
Recordings: none, as those of before do not tell.
"""

MATCHES_SEEN = 3
"""Readings of the same match. Recordings: none, for the same reason."""

SETTLED_S = 8.0
"""A finding needs no further samples once its suspects have stood still this many seconds: it decides when `mpmon show`
answers, not what. Recordings: none changes.
"""

MIN_WATCH_S = 1.9
"""Seconds to watch before anything is said: two samples, at least a second apart. Recordings: 39 halved, 71 doubled, 42
at the least, 215 unbounded.
"""

MIN_ROUNDS = 3
"""Samples before a job whose main thread waits is called healthy: of two, one may have been read in the middle of a
step. On a busy machine, two samples may be ten seconds apart. Recordings: 0 halved, 38 doubled, 0 at the least, 39
unbounded.
"""

POLLS_IN_VAIN = 3
"""How often a polling thread must have come back in vain: a leader that renewed its lease every four seconds was called
hung after seven. Recordings: 1 halved, 0 doubled, 1 at the least, 4 unbounded.
"""

NEXT_ROUND_S = 1.5
"""Seconds after which there was a second sample, if rounds are one second apart: of a goal that stands still, whose own
time matters less than that of the suspects; of a process that ended, which its waiter has then noticed, if it ever
does. It guards a job that is about to notice. Recordings: 0 halved, 0 doubled, 0 at the least, 39 unbounded.
"""

STILL_S = 0.9
"""A thread that has stood still this many seconds was found standing in two samples in a row, a second apart.
Recordings: 0 halved, 3 doubled, 1 at the least, 5 unbounded.
"""

FROZEN_AFTER_S = 3.0
"""A thread that did not run for this many seconds is frozen: three samples a second apart. Recordings: 2 halved, 11
doubled, 14 at the least, 35 unbounded.
"""

RESTS_AFTER_S = 8.0
"""A thread of a background process that did not run for this many seconds rests, and then closes no pipe that it keeps
open. Recordings: 0 halved, 1 doubled, 0 at the least, 1 unbounded.
"""

IDLE_S = 10.0
"""Seconds for which a library's workers must have waited for work, with no process of the job computing: a program that
starts a worker, or hands out short tasks, acts sooner. It guards one about to take up a task. A client of a server that has
no descriptor left waits as long: others may close theirs. Recordings: none changes.
"""

# How fresh evidence must be

KEPT_LOOKS = 36
"""Samples remembered per thread: one that polls must be seen to stand for OPEN_PATIENCE_S. Recordings: 0 halved, 0 doubled,
0 unbounded.
"""

RECENT_S = 40.0
"""Seconds after which a sign of life says nothing about the present: a job that is watched for an hour hangs like one
that is not. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded.
"""

BIRTHS_S = 20.0
"""The same for births and ends of children, seconds: a job that starts its workers and then hangs shows no more of
them. Recordings: none.
"""

LEAST_SIGNS = 3
"""Signs of life of one kind that are remembered: this many show that it continues, once or twice is a log line.
Recordings: 1 halved, 1 doubled, 1 at the least, 1 unbounded.
"""

STALE_AFTER_S = 2.0
"""When a sample is this many seconds old, what the thread did since then counts too. Recordings: 0 halved, 0 doubled, 0
at the least, 1 unbounded.
"""

RETRY_S = 6.0
"""Seconds. A thread that waits no longer than this only polls; one that waits longer has something to do then: a
scheduler with a job every 20 seconds was called hung for three of them. Recordings: 0 halved, 0 doubled, 6 at the
least, 0 unbounded.
"""

SAME_LIMIT_SHARE = 0.05
"""Two time limits that differ by less than this share are the same one, renewed; a scheduler's differ by its jobs.
Recordings: 0 halved, 0 doubled, 1 at the least, 1 unbounded.
"""

SOON_S = 120.0
"""A sleep that ends within so many seconds is a pause, not a hang; a longer wait in a call of an event loop is taken to have
no limit. Recordings: 0 halved, 0 doubled, 6 at the least, 15 unbounded.
"""

# What counts as running

COMPUTES_SHARE = 0.3
"""Share of a CPU that shows that a thread computes. Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded."""

POLLS_SHARE = 0.05
"""Share of a CPU: a polling thread uses less, a working one more. Recordings: 0 halved, 0 doubled, 7 at the least, 1
unbounded.
"""

EMPTY_READS = 1000.0
"""Reads a second that get nothing: a thread at the end of its input makes a hundred thousand, one that looks whether there is
something makes some hundred. Recordings: 0 halved, 0 doubled, 0 at the least, 2 unbounded.
"""

BEAT_SHARE = 0.01
"""Share of a CPU: a heartbeat takes less, some hundred microseconds a second. It guards a thread that waits for a
library's working thread. Recordings: none changes.
"""

TIMED_SLICES = 12
"""Runs that one timed re-poll may take; more in the same time means that it was woken. It guards a thread that gets
some work now and then. Recordings: none changes.
"""

ASKS_AGAIN_S = 1.0
"""Longest limit, seconds, of a wait that is a poll. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded."""

LEAST_TICKS = 2
"""Rounds in which a thread must have run between its sleeps to count as one that only ticks. Recordings: 0 halved, 0
doubled, 0 at the least, 1 unbounded.
"""

IN_VAIN_S = 1.0
"""A thread that ran this many seconds after the waiter, and rests again, did not do what the waiter waits for.
Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded.
"""

GROWTH_BYTES = 256 << 10
"""More than what caches and stacks make a process vary by from round to round. Recordings: none changes."""

# What counts as standing still while running

LOOKS_SPAN_S = 4.0
"""Seconds that samples must span before they prove a standstill of something that runs. Recordings: 3 halved, 4
doubled, 2 at the least, 15 unbounded.
"""

FEW_RUNS_SPAN_S = 2.0
"""The same, seconds since it last made progress, for a thread that was since scheduled no more often than a timed
re-poll is: with 4 s the screen notices two seconds later that a healthy job has stopped. Recordings: none.
"""

SPAN_AGAIN_S = 8.0
"""The same for one that was scheduled more often, whose frames have to be read at least three times: it guards jobs
that slow down for a while. Recordings: none.
"""

FEWEST_TURNS = 3
"""Samples in a row that must find a loop advancing, if there are no more: three positions found by chance rise once in
six times. Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded.
"""

SURE_TURNS = 5
"""The same if there are as many: by chance once in 120 times, which guards against a loop that restarts again and
again. Recordings: none changes.
"""

RECENT_TURNS = 9
"""The last samples, among which those must be. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded."""

ROUND_S = 6.0
"""Seconds that samples must span, from the last one that showed something new, before a loop counts as making no
progress. Recordings: 0 halved, 1 doubled, 0 at the least, 2 unbounded.
"""

ROUND_READINGS = 5
"""Readings this takes, from that one on. Recordings: 0 halved, 1 doubled, 2 unbounded."""

TORN_SHARE = 0.34
"""Share of the readings that may be torn: a third.  Where more differ it is not one loop, and nothing is said. Recordings:
none changes.
"""

ROUND_MOVES = 3
"""How often it must have been found at another line than before, and at least once further up: straight code goes down.
Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded.
"""

LAST_READINGS = 3
"""Number of last readings of variables, each of which must differ from the one before, or of two if there are no more:
once may be chance. Recordings: none changes.
"""

# Errors of clocks, and what belongs together

SAME_DEADLINE_S = 0.05
"""Two readings of one deadline differ by less, seconds. It guards a thread that was woken before its deadline and waits
anew. Recordings: none changes.
"""

GIL_INTERVAL_S = 0.1
"""Longest limit, seconds, of a wait for the GIL: it ends after sys.getswitchinterval(), 5 ms unless it was set, and begins
anew. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded.
"""

CLOCKS_S = 0.25
"""Error, seconds, between a thread's last run and a process's start. It guards a parent that took a lock after the
fork. Recordings: none changes.
"""

KILLED_TOGETHER_S = 3.0
"""A kill for memory and an end that mpmon noticed belong together if this few seconds apart. Recordings: none changes."""

FEWEST_ENDS = 4
"""So many workers of a pool that ended without a result show that the next will end so too: one or two were killed.
Recordings: none changes.
"""

# What was sent, and what is owed

OWED_SHARE = 0.05
"""Share of the items taken by which a process that puts one for one may be short. Recordings: 0 halved, 0 doubled, 1 at
the least, 0 unbounded.
"""

GREETING_BYTES = 16
"""More than gloo sends at once when it makes a connection, and less than any message: gloo/transport/tcp/pair.h.
Recordings: 0 halved, 0 doubled, 1 at the least, 1 unbounded.
"""

LEAST_RESENDS = 4
"""Retransmissions of the same bytes. The wait before each is twice as long as before, so with Linux's shortest first
one, 0.2 s (TCP_RTO_MIN), that is 3 s. Recordings: 0 halved, 2 doubled, 0 at the least, 2 unbounded.
"""

SILENT_S = 3.0
"""The same if a route has a shorter first wait: no acknowledgement must have come for this many seconds, if the kernel
tells when. Recordings: 0 halved, 0 doubled, 0 at the least, 2 unbounded.
"""

# How a healthy job progresses: no verdict depends on it, so no recording changes

PACE_S = 60.0
"""How far back samples of ranks count, seconds."""

SHARE_LOOKS = 20
"""With fewer samples, no share of a rank's time and no bottleneck is reported: one sample is a twentieth."""

KNOWN_SHARE = 0.8
"""Share of all samples that must be explained for shares to be reported: the others may all be of one sort. For the
bottleneck they count against it.
"""

BOTTLENECK_WAIT_SHARE = 0.2
"""Share of samples in which each of the others waits for ranks."""

BOTTLENECK_MORE_SHARE = 0.15
"""By how much that is more than the bottleneck's own."""

BOTTLENECK_ERRORS = 2.5
"""The same, in standard errors of the difference of two shares: by chance that is so once in 160 times."""

DATA_SHARE = 0.5
"""Share of samples in which all ranks wait for batches, if loaders are the bottleneck."""

PAUSES_SHARE = 0.5
"""Pauses with a smaller share of the last minute are the exception, and so are two of them at most."""

RANKS_PAUSE_S = 3.0
"""A standstill of all ranks that takes this many seconds is a pause."""

LINE_LOOKS = 3
"""Samples at one place that have to find the line reported."""

LINE_SHARE = 2 / 3
"""Share of the samples there that have to."""

RATE_S = 30.0
"""How far back a rate goes, seconds."""

RATE_LEAST_S = 4.0
"""Over fewer seconds one item more or less would make a difference."""

RATE_LOOKS = 10
"""Samples compared, among those within the span of a rate."""

# Which machine differs (`figures` has a level for each figure): no verdict depends on it

FIGURE_MACHINES = 3
"""Machines with a known figure that a comparison takes: of two, nobody knows which one is right."""

FIGURE_DEVIATIONS = 5.0
"""Median absolute deviations from the median of the others; of a normal distribution that is 3.4 standard deviations."""

FIGURE_LEAST_S = 10.0
"""Figures over fewer seconds may be a burst."""

# GPUs: `mpmon doctor --gpu` measures whether these levels tell work, spinning and rest apart; on an H100 (limit 700 W) work took
# 451 W with its memory 41 % busy, spinning 122 W and 0 %, rest 119 W

GPU_FRESH_S = 10.0
"""A device's values older than this many seconds say nothing about the present."""

GPU_BUSY_PERCENT = 90.0
"""A spinning device is busy for this share of the time: one kernel runs all the time."""

GPU_WORKS_PERCENT = 50.0
"""A device that was busy for this share of the time while its rank progressed was at work."""

GPU_STANDS_LONG_S = 60.0
"""Seconds, longer than a step of most trainings: a thread that has stood still this long is examined."""

GPU_LEVEL_SHARE = 0.7
"""Power below this share of a device's own power at work is low."""

GPU_LIMIT_SHARE = 0.35
"""Power below this share of the device's limit is low if it was never seen at work. Ranks in a hung collective draw 14
to 25 % of the limit.
"""

GPU_SPIN_MEMORY_PERCENT = 10.0
"""A kernel that waits hardly touches the device's memory."""

GPU_READINGS = 3
"""How many of the last readings must agree."""

GPU_LEVEL_READINGS = 10
"""How many readings make a level."""

GPU_RECENT_S = 30.0
"""How far back the last readings may lie, seconds."""

GPU_IDLE_SM_PERCENT = 10.0
"""A process with less than this does not keep the device busy."""

# What is shared: no verdict depends on it

RECEIVED_WITHIN_S = 30.0
"""CUDA memory sent for fewer seconds may still be on its way."""

LOST_AFTER_S = 300.0
"""The same if only the time says so."""

NEAR_LIMIT_SHARE = 0.9
"""Share of a process's limit from which a remark is worthwhile, with time left to act."""

BY_CLOCK_S = 60.0
"""For so long one that polls and looks at a clock may be waiting for its time to do something, as what flushes every half
minute or reports every minute.
"""
