"""From a stuck set to a finding: its cause, the sentence, the evidence, the advice."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.advice.practices import further_advice
from mpmon.diagnosis.edges.deaths import death
from mpmon.diagnosis.explanation.basis import agreement
from mpmon.diagnosis.explanation.proof import judged
from mpmon.diagnosis.explanation.symptoms import hidden, symptom
from mpmon.diagnosis.findings import Finding, Suspect
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.responsibility import responsible
from mpmon.diagnosis.rules import RULES
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet, doing, stands_since
from mpmon.diagnosis.suspects import stands_at


def finding(stuck: StuckSet) -> Finding:
    """The finding of a stuck set."""
    cause, match = cause_of(stuck)
    suspects = responsible(stuck)
    certainty, doubts = judged(stuck, match)
    found = Finding(
        cause=cause, certainty=certainty, doubts=doubts, summary=_sentence(match, stuck),
        suspects=tuple(_with_line(stuck, _with_end(stuck.job, suspect)) for suspect in suspects),
        waiters=tuple(row for row in stuck.waiters() if row.pid not in {suspect.pid for suspect in suspects}),
        chain=stuck.chain(), evidence=tuple(dict.fromkeys(line for line in match.evidence if line)),
        advice=match.advice, since=stuck.since(), threads=match.threads,
    )  # fmt: skip
    evidence = (*found.evidence, *_in_native_code(stuck), *agreement(found, stuck.job.stacks))
    return msgspec.structs.replace(found, evidence=evidence, advice=(*found.advice, *further_advice(stuck.job, found)))


def cause_of(stuck: StuckSet) -> tuple[str, Match]:
    """The cause, with what is said of it."""
    if found := hidden(stuck):
        return found
    matches = ((rule.CAUSE, rule.match(stuck)) for rule in RULES)
    return next(((cause, match) for cause, match in matches if match), None) or symptom(stuck)


def _sentence(match: Match, stuck: StuckSet) -> str:
    parts = [match.summary, *_others_stand(stuck)]
    waits = "" if stuck.goal in match.tells_of else stuck.who_waits()
    return "; ".join([*parts, waits] if waits and waits not in match.summary else parts)


MOST_OTHERS = 2
"""At most this many further, independently blocked threads are described in the sentence."""


def _others_stand(stuck: StuckSet) -> list[str]:
    """Other root blockers that are blocked independently: hangs of their own."""
    job, first = stuck.job, stuck.root
    if stuck.ending is not Ending.LEAF or first is None:
        return []
    others = [key for key in stuck.at_end[1:] if key[0] != first[0]]
    alike = [key for key in others if doing(job, key) == doing(job, first)]
    rest = [key for key in others if key not in alike]
    told = [
        f"{job.role(key[0]).name} has been {doing(job, key, age(job.now - stands_since(job, key)))}"
        for key in rest[:MOST_OTHERS]
    ]
    same = [f"so {'have' if len(alike) > 1 else 'has'} {job.names(alike)}"]
    return [
        *(same if alike else ()),
        *told,
        *([f"and {len(rest) - MOST_OTHERS} more"] if len(rest) > MOST_OTHERS else []),
    ]


MOST_IN_C = 4
"""Members of a chain whose waits in C are reported."""


def _in_native_code(stuck: StuckSet) -> tuple[str, ...]:
    """What the C and C++ frames in the chain show about the waits, root blockers first."""
    keys = dict.fromkeys((*stuck.at_end[:1], *reversed(stuck.closed.path)))
    facts = [(key, fact) for key in keys if (fact := stuck.job.native_hints.get(key)) and fact.words]
    return tuple(
        f"C and C++ frames of {stuck.named(key)}: {fact.words}"
        + ("" if fact.certain or fact.sampled else ", inferred from frames found by searching the stack")
        for key, fact in facts[:MOST_IN_C]
    )


def _with_end(job: JobState, suspect: Suspect) -> Suspect:
    return msgspec.structs.replace(suspect, end=death(job, suspect.pid).how) if suspect.dead else suspect


def _with_line(stuck: StuckSet, suspect: Suspect) -> Suspect:
    """Gives a native thread, and a library's own thread, the line of the program that called the library."""
    if suspect.tid is None:
        return suspect
    key = (suspect.pid, suspect.tid)
    caller = stuck.caller(key) if suspect.frame is None else _caller_of_library(stuck.job, key)
    return msgspec.structs.replace(suspect, frame=stands_at(stuck.job, caller)) if caller else suspect


def _caller_of_library(job: JobState, key: ThreadKey) -> ThreadKey | None:
    """For a thread that runs only code of a library: the only thread of its process that called this library."""
    serves = job.shape(key).serves
    callers = [other for other in job.threads(key[0]) if serves & job.shape(other).asks] if serves else []
    return callers[0] if len(callers) == 1 else None
