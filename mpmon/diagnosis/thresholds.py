"""Every time, share and count from which on the diagnosis judges otherwise, with the reason or the measurement it rests on.

Rounds are a second apart where something may be wrong and two where all is well (`mpmon.session.cadence`); what is told of
two looks is in those seconds.  Recordings of hangs end some ten seconds after they began, so they bear half of a time better
than twice of it.

How much hangs on a number is measured: `python -m tests.scores.thresholds` replays all recordings with another one.  `Recordings:
0 halved, 1 doubled, 2 at the least, 3 unbounded` says of how many of 215 verdict, cause or suspects are then others, at the end,
or of a job that works at any moment; least is 1 of a count, else next to nothing.  What guards jobs that run for hours, GPUs or
clusters of machines cannot show in such recordings.

What a remark needs, and how much of something is shown, stands with the remark and with what is shown.
"""

from __future__ import annotations

# How long something must stand

PATIENCE_S = 5.0
"""Seconds that what waits must have stood before it is called hung, or slow where the one it waits for moves; that an answer
must have been the same, and that a program which shows only its system calls must have napped; after so long without growth
memory grows no more.  Shorter pauses of a healthy job go by unsaid. Recordings: 6 halved, 149 doubled, 11 at the least, 157
unbounded.
"""

RUNNING_PATIENCE_S = 7.0
"""The same, seconds, for one that runs without getting anywhere: a long computation looks like that for a while.  So long
must it have been seen without a change where it was seen to get on before, and so long must all ranks have stood that keep a
GPU busy. Recordings: 0 halved, 24 doubled, 2 at the least, 26 unbounded.
"""

SETTLED_S = 8.0
"""A finding whose suspects stand for so many seconds needs no longer look: when `mpmon show` answers, and not what.
Recordings: none changes.
"""

MIN_WATCH_S = 1.9
"""Seconds to watch before anything is said: two looks, at least a second apart. Recordings: 39 halved, 71 doubled, 42 at the
least, 215 unbounded.
"""

MIN_ROUNDS = 3
"""Looks before a job whose main thread waits is called healthy: of two, one may have been read in the middle of a step.  On a
busy machine, two looks may be ten seconds apart. Recordings: 0 halved, 38 doubled, 0 at the least, 39 unbounded.
"""

POLLS_IN_VAIN = 3
"""So often must one that sleeps and looks again have come back in vain: a leader that renewed its lease every four seconds was
called hung after seven. Recordings: 1 halved, 0 doubled, 1 at the least, 4 unbounded.
"""

NEXT_ROUND_S = 1.5
"""Seconds after which there was a second look, where rounds are one second apart: at a goal that stands, whose own time
matters less than that of the suspects; at one that ended, whom whoever waits for it has then noticed, if it ever does.  It
guards a job that is about to notice. Recordings: 0 halved, 0 doubled, 0 at the least, 39 unbounded.
"""

STILL_S = 0.9
"""Who stands for so many seconds was found standing at two looks in a row, a second apart. Recordings: 0 halved, 3 doubled,
1 at the least, 5 unbounded.
"""

FROZEN_AFTER_S = 3.0
"""A thread that did not run for so many seconds is frozen: three looks a second apart. Recordings: 2 halved, 11 doubled, 14
at the least, 35 unbounded.
"""

RESTS_AFTER_S = 8.0
"""A thread that did not run for so many seconds rests: of a process in the background, which then closes no pipe that it
keeps open. Recordings: 0 halved, 1 doubled, 0 at the least, 1 unbounded.
"""

IDLE_S = 10.0
"""Seconds for which a library's workers must have waited for work, and no process of the job computed: who starts a worker,
or hands out short tasks, does so sooner again.  It guards one about to take up a task. Recordings: none changes.
"""

# How fresh evidence must be

KEPT_LOOKS = 24
"""Looks at one thread that are remembered. Recordings: 0 halved, 0 doubled, 0 unbounded."""

RECENT_S = 40.0
"""Seconds after which a sign of life says nothing about the present: a job that is watched for an hour hangs like one that
is not. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded.
"""

BIRTHS_S = 20.0
"""The same of children that are born and end, seconds: a job that starts its workers and then hangs shows no more of them.
Recordings: none.
"""

LEAST_SIGNS = 3
"""Signs of life of one kind that are remembered: so many show that it goes on, once or twice is a log line. Recordings: 1
halved, 1 doubled, 1 at the least, 1 unbounded.
"""

STALE_AFTER_S = 2.0
"""When a look is so many seconds old, what the thread did since then counts too. Recordings: 0 halved, 0 doubled, 0 at the
least, 1 unbounded.
"""

RETRY_S = 6.0
"""Seconds. Whoever waits for no longer than this only looks in from time to time; who waits for longer has something to do
then: a scheduler with a job every 20 seconds was called hung for three of them. Recordings: 0 halved, 0 doubled, 6 at the
least, 0 unbounded.
"""

SOON_S = 120.0
"""A sleep that ends within so many seconds is a pause, not a hang. Recordings: 0 halved, 0 doubled, 6 at the least, 15
unbounded.
"""

# What counts as running

COMPUTES_SHARE = 0.3
"""Share of a CPU that shows that a thread computes. Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded."""

POLLS_SHARE = 0.05
"""Share of a CPU: who only looks in from time to time uses less, who works more. Recordings: 0 halved, 0 doubled, 7 at the
least, 1 unbounded.
"""

BEAT_SHARE = 0.01
"""Share of a CPU: a heartbeat takes less, some hundred microseconds a second.  It guards whoever waits for a thread of a
library that works. Recordings: none changes.
"""

TIMED_SLICES = 12
"""Runs that one timed re-poll may take; more in the same time means that it was woken.  It guards one that is given
something now and then. Recordings: none changes.
"""

ASKS_AGAIN_S = 1.0
"""Longest limit, seconds, of a wait that is a poll. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded."""

LEAST_TICKS = 2
"""Rounds in which a thread must have run between its sleeps, to be one that only ticks. Recordings: 0 halved, 0 doubled, 0
at the least, 1 unbounded.
"""

IN_VAIN_S = 1.0
"""A thread that ran so many seconds after the waiter, and rests again, did not do what that waits for. Recordings: 0 halved,
0 doubled, 0 at the least, 1 unbounded.
"""

GROWTH_BYTES = 256 << 10
"""More than what caches and stacks make a process vary by from round to round. Recordings: none changes."""

# What counts as standing of what runs

LOOKS_SPAN_S = 4.0
"""Seconds that looks must span before they prove a standstill of something that runs. Recordings: 3 halved, 4 doubled, 2 at
the least, 15 unbounded.
"""

FEW_RUNS_SPAN_S = 2.0
"""The same, seconds since it last got on, of one that was put on a CPU no more often since than a timed re-poll is: with 4 s
the screen notices two seconds later that a healthy job has come to a stand. Recordings: none.
"""

SPAN_AGAIN_S = 8.0
"""The same of one that was put on a CPU more often, whose frames have to be read at least three times: it guards jobs that
slow down for a while. Recordings: none.
"""

FEWEST_TURNS = 3
"""Looks in a row that must find a loop going on, where there are no more: three positions found by chance rise once in six
times. Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded.
"""

SURE_TURNS = 5
"""The same where there are as many: by chance once in 120 times, which guards against a loop that begins again and again.
Recordings: none changes.
"""

RECENT_TURNS = 9
"""The last looks, of which those must be. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded."""

ROUND_S = 6.0
"""Seconds that looks must span, from the last one that showed something new, before a loop goes round in circles.
Recordings: 0 halved, 1 doubled, 0 at the least, 2 unbounded.
"""

ROUND_READINGS = 5
"""Readings that it takes, from that one on. Recordings: 0 halved, 1 doubled, 2 unbounded."""

TORN_SHARE = 0.34
"""Share of the readings that may be torn: a third.  Where more differ it is not one loop, and nothing is said. Recordings:
none changes.
"""

ROUND_MOVES = 3
"""So often it must have been found at another line than before, and once at least further up: straight code goes down.
Recordings: 0 halved, 0 doubled, 0 at the least, 1 unbounded.
"""

LAST_READINGS = 3
"""Readings of variables, the last ones, of which each must differ from the one before, or of two where there are no more:
once may be chance. Recordings: none changes.
"""

# Errors of clocks, and what belongs together

SAME_DEADLINE_S = 0.05
"""Two readings of one deadline differ by less, seconds.  It guards one that was woken before its deadline and waits anew.
Recordings: none changes.
"""

GIL_INTERVAL_S = 0.1
"""Longest limit, seconds, of a wait for the GIL: it ends after sys.getswitchinterval(), 5 ms unless it was set, and begins
anew. Recordings: 0 halved, 0 doubled, 1 at the least, 0 unbounded.
"""

CLOCKS_S = 0.25
"""Error, seconds, of the moment at which a thread last ran against the one at which a process began.  It guards a parent
that took a lock after the fork. Recordings: none changes.
"""

KILLED_TOGETHER_S = 3.0
"""A kill for memory and an end that mpmon noticed so few seconds apart belong together. Recordings: none changes."""

STARTED_TOGETHER_S = 0.1
"""Workers of one pool start one after the other, closer than so many seconds or at least evenly. Recordings: 0 halved, 0
doubled, 1 at the least, 1 unbounded.
"""

# What was sent, and what is owed

OWED_SHARE = 0.05
"""Share of the items it took that one may be short of who puts one for one. Recordings: 0 halved, 0 doubled, 1 at the least,
0 unbounded.
"""

GREETING_BYTES = 16
"""More than the one who makes a connection of gloo sends at once, and less than any message: gloo/transport/tcp/pair.h.
Recordings: 0 halved, 0 doubled, 1 at the least, 1 unbounded.
"""

LEAST_RESENDS = 4
"""Resendings of the same bytes. The wait before each is twice as long as before, so with Linux's shortest first one, 0.2 s
(TCP_RTO_MIN), that is 3 s. Recordings: 0 halved, 2 doubled, 0 at the least, 2 unbounded.
"""

SILENT_S = 3.0
"""The same where a route has a shorter first wait: so many seconds no acknowledgement must have come, as far as the kernel
tells when. Recordings: 0 halved, 0 doubled, 0 at the least, 2 unbounded.
"""

# How a healthy job gets on: no verdict hangs on it, so that no recording changes

PACE_S = 60.0
"""How far back looks at ranks count, seconds."""

SHARE_LOOKS = 20
"""Fewer looks at a rank tell no share of its time, and no bottleneck: one of them is a twentieth."""

KNOWN_SHARE = 0.9
"""Share of all moments of which it must be known what a rank did: what is missing may all be of one sort."""

BOTTLENECK_WAIT_SHARE = 0.2
"""Share of looks at which each of the others waits for ranks."""

BOTTLENECK_MORE_SHARE = 0.15
"""By how much that is more than the bottleneck's own."""

BOTTLENECK_ERRORS = 2.5
"""The same, in standard errors of the difference of two shares: by chance that is so once in 160 times."""

DATA_SHARE = 0.5
"""Share of looks at which all ranks wait for batches, where loaders are the bottleneck."""

PAUSES_SHARE = 0.5
"""Pauses that take a smaller share of the last minute are the exception, and two of them at most."""

RANKS_PAUSE_S = 3.0
"""What all ranks stand for is a pause when it takes so many seconds."""

LINE_LOOKS = 3
"""Looks at one place that have to find the line that is told."""

LINE_SHARE = 2 / 3
"""Share of the looks there that have to."""

RATE_S = 30.0
"""How far back a rate goes, seconds."""

RATE_LEAST_S = 4.0
"""Over fewer seconds one item more or less would make a difference."""

RATE_LOOKS = 10
"""Looks that are compared, of those within the span of a rate."""

# Which machine differs (`figures` has a level for each figure): no verdict hangs on it

FIGURE_MACHINES = 3
"""Machines whose figure is known, for a comparison: of two nobody knows which one is right."""

FIGURE_DEVIATIONS = 5.0
"""Median absolute deviations from the median of the others; of a normal distribution that is 3.4 standard deviations."""

FIGURE_LEAST_S = 10.0
"""Figures of fewer seconds may be of a burst."""

# GPUs: no recording is of one; `mpmon doctor --gpu` measures whether these levels tell work, spinning and rest apart

GPU_FRESH_S = 10.0
"""Values of a device that are more seconds old say nothing about the present."""

GPU_BUSY_PERCENT = 90.0
"""A device that spins is busy for so much of the time: one kernel is there all the time."""

GPU_WORKS_PERCENT = 50.0
"""A device that was busy for so much of the time while its rank moved was at work."""

GPU_STANDS_LONG_S = 60.0
"""Seconds, longer than a step of most trainings: who has stood for so long is asked about."""

GPU_LEVEL_SHARE = 0.7
"""Power below this share of a device's own power while it worked is low."""

GPU_LIMIT_SHARE = 0.35
"""Power below this share of its limit is low where it was never seen at work. Ranks in a hung collective draw 14 to 25 % of
the limit.
"""

GPU_SPIN_MEMORY_PERCENT = 10.0
"""A kernel that waits hardly touches the device's memory."""

GPU_READINGS = 3
"""So many of the last readings must agree."""

GPU_LEVEL_READINGS = 10
"""So many readings make a level."""

GPU_RECENT_S = 30.0
"""How far back the last readings may lie, seconds."""

GPU_IDLE_SM_PERCENT = 10.0
"""A process with less than this is not the one that keeps the device busy."""

# What is shared: no verdict hangs on it

RECEIVED_WITHIN_S = 30.0
"""Sendings of CUDA memory that are under way for fewer seconds may be just being received."""

LOST_AFTER_S = 300.0
"""The same where nothing says so but the time."""

NEAR_LIMIT_SHARE = 0.9
"""Of what a process may have: from here on it is worth a remark, and there is still time."""
