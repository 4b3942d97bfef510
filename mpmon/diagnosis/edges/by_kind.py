"""The function of each kind of wait."""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.edges.ends import end_of_interpreter, end_of_process, end_of_thread, launched_ranks
from mpmon.diagnosis.edges.file_locks import file_lock
from mpmon.diagnosis.edges.loaders import loader_batch
from mpmon.diagnosis.edges.loops import event_loop
from mpmon.diagnosis.edges.managers import clients
from mpmon.diagnosis.edges.messages import message
from mpmon.diagnosis.edges.named_objects import named_object
from mpmon.diagnosis.edges.ranks import collective
from mpmon.diagnosis.edges.remote import remote_call, remote_end
from mpmon.diagnosis.edges.rendezvous import rendezvous, store_key
from mpmon.diagnosis.edges.semaphores import queue_item, semaphore
from mpmon.diagnosis.edges.servants import end_or_callback, future_result, pool_result, started_process
from mpmon.diagnosis.edges.supervisors import end_by_signal
from mpmon.diagnosis.edges.threads import native_mutex, other_threads, thread_lock
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

EDGES: dict[Wait, Callable[[JobState, ThreadKey], WaitEdge | None]] = {
    Wait.LOADER_BATCH: loader_batch,
    Wait.POOL_RESULT: pool_result,
    Wait.FUTURE_RESULT: future_result,
    Wait.JOIN_PROCESS: end_or_callback,
    Wait.CHILD: end_of_process,
    Wait.JOIN_THREAD: end_of_thread,
    Wait.EXIT: end_of_interpreter,
    Wait.LAUNCHER: launched_ranks,
    Wait.SIGNAL: end_by_signal,
    Wait.QUEUE_GET: queue_item,
    Wait.QUEUE_PUT: queue_item,
    Wait.PIPE_READ: message,
    Wait.PIPE_WRITE: message,
    Wait.POLL: message,
    Wait.EVENT_LOOP: event_loop,
    Wait.SOCKET: message,
    Wait.FORK_SERVER: started_process,
    Wait.OTHER_CLIENTS: clients,
    Wait.LOCK: semaphore,
    Wait.PROCESS_EVENT: semaphore,
    Wait.FILE_LOCK: file_lock,
    Wait.NAMED_OBJECT: named_object,
    Wait.THREAD_LOCK: thread_lock,
    Wait.FUTEX: native_mutex,
    Wait.THREAD_QUEUE: other_threads,
    Wait.CONDITION: other_threads,
    Wait.TIMER: other_threads,
    Wait.COLLECTIVE: collective,
    Wait.RENDEZVOUS: rendezvous,
    Wait.STORE_KEY: store_key,
    Wait.REMOTE_CALL: remote_call,
    Wait.REMOTE_END: remote_end,
}
"""Kinds without a row are leaves: they wait for nothing in the job."""
