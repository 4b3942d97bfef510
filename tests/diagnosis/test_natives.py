"""What the C and C++ frames of a thread mean, and what a diagnosis makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.edges.natives import native_threads
from mpmon.diagnosis.explanation.basis import basis
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Suspect, Verdict
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.stacks.native_waits import Sort, known
from mpmon.diagnosis.stacks.natives import NativeFact, native_fact
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import JoinTarget, NativeFrame, NativeStack, Row
from tests.builders import ROOT, START, blocked, history, kernel_object, process, snapshot, stack, thread, watched

CHILD = 5000
PRIVATE_WAIT, PRIVATE_BITSET = 0x80, 0x89
"""futex(2): FUTEX_WAIT and FUTEX_WAIT_BITSET of a word of one process."""

FILES = {
    "libc": "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "python": "/usr/lib/libpython3.11.so.1.0",
    "ctypes": "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
    "ffi": "/usr/lib/libffi.so.8",
    "cpp": "/usr/lib/libstdc++.so.6",
    "gomp": "/venv/torch/lib/libgomp.so.1",
    "cpu": "/venv/torch/lib/libtorch_cpu.so",
    "bindings": "/venv/torch/lib/libtorch_python.so",
    "codec": "/opt/codec/libcodec.so",
    "nccl": "/venv/nvidia/nccl/lib/libnccl.so.2",
    "cuda": "/usr/lib/libcuda.so.535",
    "cudart": "/venv/nvidia/lib/libcudart.so.12",
}


def frames(*texts: str) -> tuple[NativeFrame, ...]:
    """`libc sem_wait`, innermost first; `?` before it for one that was searched for, and nothing after it for no name."""
    found: list[NativeFrame] = []
    for text in (*texts, "python _PyEval_EvalFrameDefault", "codec never_reached"):
        file, _, name = text.lstrip("?").partition(" ")
        how = "search" if text.startswith("?") else "frame information" if found else "registers"
        found.append(NativeFrame(library=FILES[file], offset=1, function=name or None, name=name or None, how=how))
    return tuple(found)


def native(*texts: str, pid: int = ROOT, tid: int | None = None) -> NativeStack:
    return NativeStack(pid=pid, tid=tid or pid, taken_at=START, frames=frames(*texts), end="start")


def moment(*texts: str, tid: int | None = None) -> NativeStack:
    """The same of a thread that ran."""
    slept = native(*texts, tid=tid)
    first = msgspec.structs.replace(slept.frames[0], how="sample")
    return msgspec.structs.replace(slept, frames=(first, *slept.frames[1:]))


def fact(*texts: str) -> NativeFact:
    found = native_fact(native(*texts))
    assert found
    return found


COND = ("libc", "libc pthread_cond_wait", "cpp std::condition_variable::wait")
CTYPES = ("ffi", "ffi ffi_call", "ctypes PyCFuncPtr_call")


@pytest.mark.parametrize(
    ("texts", "called", "waits_for", "sort"),
    [
        (("libc", "libc sem_wait", *CTYPES), "sem_wait of libc.so.6", "a sem_post by another thread", Sort.SEMAPHORE),
        (("libc", "libc sem_wait", "python PyThread_acquire_lock_timed"), "", "a lock of Python's", Sort.PYTHON_LOCK),
        (("libc pthread_cond_timedwait", "python take_gil", "python PyGILState_Ensure", "codec f"), "", "the GIL", Sort.GIL),
        (("gomp gomp_team_barrier_wait_end", "gomp gomp_team_end", "cpu mkl_blas_sgemm", "cpu at::native::matmul",
          "cpu at::_ops::matmul::call", "bindings torch::autograd::THPVariable_matmul"),
         "at::native::matmul of libtorch_cpu.so", "the threads of its team", Sort.TEAM),
        (("libc pthread_mutex_lock", "codec one_row", "gomp GOMP_parallel", "codec decode"),
         "decode of libcodec.so", "a lock of C code", Sort.LOCK),
        (("libc", "libc pthread_cond_timedwait", "cpu gloo::transport::tcp::UnboundBuffer::waitRecv",
          "cpu c10d::ProcessGroupGloo::RecvWork::wait", "bindings pybind11::cpp_function::dispatcher"),
         "c10d::ProcessGroupGloo::RecvWork::wait of libtorch_cpu.so", "data from another rank", Sort.RANKS),
        ((*COND, "cpu c10d::Work::wait", "bindings pybind11::cpp_function::dispatcher"),
         "c10d::Work::wait of libtorch_cpu.so", "the end of a collective", Sort.RANKS),
        ((*COND, "cpu c10d::Reducer::finalize_backward", "cpu torch::autograd::Engine::thread_main",
          "cpu torch::autograd::Engine::execute", "bindings THPEngine_run_backward"),
         "torch::autograd::Engine::execute of libtorch_cpu.so", "the gradients of the other ranks", Sort.RANKS),
        (("libc __poll", "cpu c10d::detail::SocketImpl::waitForInput", "cpu c10d::TCPStore::doWait", "cpu c10d::TCPStore::get"),
         "c10d::TCPStore::get of libtorch_cpu.so", "a key of the store, which another process sets", Sort.RANKS),
        (("libc accept", "nccl socketProgressState", "nccl ncclSocketAccept", "nccl bootstrapInit", "nccl ncclCommInitRankFunc"),
         "ncclCommInitRankFunc of libnccl.so.2", "the other ranks, to meet them", Sort.RANKS),
        (("libc ioctl", "cuda", "cuda cuStreamSynchronize", "cudart cudaStreamSynchronize", "cpu at::native::item"),
         "at::native::item of libtorch_cpu.so", "the GPU to finish its work", Sort.GPU),
        (("libc __poll", "libc", "libc getaddrinfo"), "getaddrinfo of libc.so.6", "an answer from a name server",
         Sort.NAME_SERVER),
        (("libc", "libc pthread_mutex_lock", "libc dlopen", *CTYPES), "dlopen of libc.so.6",
         "the thread that is loading a library: one at a time", Sort.LOCK),
        (("libc", "libc sem_wait", "codec at_load", "libc _dl_catch_exception", "libc dlopen", *CTYPES), "dlopen of libc.so.6",
         "a sem_post by another thread", Sort.SEMAPHORE),
        (("libc", "libc pthread_join", "cpp std::thread::join", "codec decoder_close", *CTYPES),
         "decoder_close of libcodec.so", "the end of a native thread", Sort.END),
        ((*COND, "cpu torch::autograd::ReadyQueue::pop"), "torch::autograd::ReadyQueue::pop of libtorch_cpu.so",
         "gradients that other threads compute", Sort.TEAM),
        ((*COND, "cpu c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop"),
         "c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop of libtorch_cpu.so", "its next look at NCCL's work", Sort.NOBODY),
        ((*COND, "cpu at::internal::_parallel_run", "cpu at::native::add"), "at::native::add of libtorch_cpu.so",
         "the threads of its pool", Sort.TEAM),
    ],
)  # fmt: skip
def test_what_a_stack_means(texts: tuple[str, ...], called: str, waits_for: str, sort: Sort) -> None:
    found = fact(*texts)
    assert found.wait
    assert (found.called, found.wait.waits_for, found.wait.sort) == (called, waits_for, sort)
    assert found.is_surely(sort)


def test_a_name_that_nobody_would_write_is_not_looked_up() -> None:
    assert known("gloo::" + "transport::" * 10 + "waitRecv")
    assert known("gloo::" + "transport::" * 1000 + "waitRecv") is None


def test_of_an_unknown_library_the_function_is_named() -> None:
    found = fact("libc read", "codec", "codec decode_frame", *CTYPES)
    assert (found.called, found.wait, found.words) == ("decode_frame of libcodec.so", None, "")


def test_a_frame_that_was_searched_for_only_suggests_and_so_does_all_behind_it() -> None:
    assert not fact("libc", "?libc sem_wait", *CTYPES).certain
    assert not fact("?codec", "libc sem_wait", *CTYPES).certain
    assert fact("libc", "libc sem_wait", "?codec", *CTYPES).certain


def test_where_no_frame_is_known_nothing_is_told() -> None:
    assert native_fact(NativeStack(pid=1, tid=1, taken_at=START, end="running")) is None
    assert native_fact(NativeStack(pid=1, tid=1, taken_at=START, frames=frames()[:1], end="start")) is None


# Findings


def forked_child(operation: int, value: int, *texts: str, threads: int = 1, **limit: float) -> Finding:
    """The child of a fork stands in a futex, with these frames, and its parent waits for its end."""
    name = f"futex:{CHILD}:0x70"
    return first(
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:50 <module>"),
        blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
        process(CHILD, parent=ROOT, forked=True, threads=threads), thread(CHILD),
        stack("main", "job.py:12 score", "multiprocessing/process.py:314 BaseProcess._bootstrap", pid=CHILD),
        blocked("futex", name, pid=CHILD, ran_at=0.0, args=(0x70, operation, value, 0, 0, 0), **limit), kernel_object(name),
        *([native(*texts, pid=CHILD)] if texts else []),
    )  # fmt: skip


def first(*rows: Row) -> Finding:
    found: Diagnosis = watched(snapshot(*rows))
    return found.findings[0]


def evidence(finding: Finding) -> str:
    return "\n".join(finding.evidence)


BARRIER = ("gomp gomp_team_barrier_wait_end", "gomp gomp_team_end", "cpu at::native::matmul")


def test_a_semaphore_of_c_code_is_no_lock_that_a_fork_copied() -> None:
    """The kernel alone says as much of either."""
    assert forked_child(PRIVATE_BITSET, 0).cause == "fork-lock"
    found = forked_child(PRIVATE_BITSET, 0, "libc", "libc sem_wait", *CTYPES)
    assert (found.cause, found.certainty) == ("native-hang", Certainty.LIKELY)
    assert "sem_wait of libc.so.6" in found.summary
    assert "a sem_post by another thread" in found.summary


def test_what_was_searched_for_changes_no_cause() -> None:
    found = forked_child(PRIVATE_BITSET, 0, "libc", "?libc sem_wait", *CTYPES)
    assert found.cause == "fork-lock"
    assert "found by searching" in evidence(found)


def test_a_barrier_on_the_stack_of_the_only_thread_proves_that_a_fork_left_its_team() -> None:
    assert forked_child(PRIVATE_WAIT, 32).certainty is Certainty.LIKELY
    found = forked_child(PRIVATE_WAIT, 32, *BARRIER)
    assert (found.cause, found.certainty) == ("fork-openmp", Certainty.PROVED)
    assert "at::native::matmul of libtorch_cpu.so" in evidence(found)
    assert forked_child(PRIVATE_WAIT, 32, *BARRIER, threads=2).certainty is Certainty.LIKELY
    assert forked_child(PRIVATE_WAIT, 32, "?gomp", *BARRIER).certainty is Certainty.LIKELY


def test_a_barrier_that_waits_like_a_mutex_is_told_by_its_frames() -> None:
    assert forked_child(PRIVATE_WAIT, 2).cause == "fork-lock"
    assert forked_child(PRIVATE_WAIT, 2, *BARRIER).cause == "fork-openmp"


def test_a_lock_of_c_code_in_the_only_thread_of_a_fork_is_proved() -> None:
    texts = ("libc pthread_mutex_lock", "codec decode", *CTYPES)
    found = forked_child(PRIVATE_WAIT, 2, *texts)
    assert (found.cause, found.certainty) == ("fork-lock", Certainty.PROVED)
    assert forked_child(PRIVATE_WAIT, 2, *texts, timeout_s=100.0).certainty is not Certainty.PROVED


CHANNEL = "/venv/lib/python3.11/site-packages/grpc/_channel.py:1152 _blocking"


def asks_in_fork(*, threads: int = 1, natives: bool = True, call: str = CHANNEL) -> Diagnosis:
    """The child of a fork polls an eventfd in a library's call, and its parent waits for its end."""
    wakes = f"eventfd:{CHILD}:6"
    return watched(snapshot(
        process(), thread(), *([thread(tid=HELPER)] if natives else []),
        stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:50 <module>"),
        blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
        process(CHILD, parent=ROOT, forked=True, threads=threads), thread(CHILD),
        stack("main", call, "job.py:13 ask", "multiprocessing/process.py:314 BaseProcess._bootstrap", pid=CHILD),
        blocked("epoll_wait", wakes, pid=CHILD, ran_at=0.0, timeout_s=0.2), kernel_object(wakes),
    ))  # fmt: skip


def test_a_library_asks_threads_of_its_own_that_a_fork_did_not_copy() -> None:
    found = asks_in_fork().findings[0]
    assert (found.cause, [row.pid for row in found.suspects]) == ("fork-thread", [CHILD])
    assert "native threads, which would wake it" in evidence(found)


@pytest.mark.parametrize("calm", [{"threads": 2}, {"natives": False}, {"call": "job.py:12 wait_for_event"}])
def test_else_who_polls_its_own_wake_up_has_only_a_time_limit(calm: dict[str, Any]) -> None:
    assert asks_in_fork(**calm).verdict is not Verdict.HUNG


def hung_in_c(*texts: str) -> Finding:
    """The only thread of a program stands in a futex that is no lock of Python's."""
    return first(
        process(), thread(), stack("main", "job.py:12 collect"), blocked("futex", "futex:4100:0x70", ran_at=0.0),
        native(*texts),
    )  # fmt: skip


def test_a_native_hang_names_the_library_the_function_and_what_it_waits_for() -> None:
    found = hung_in_c(*COND, "codec decoder_flush", *CTYPES)
    assert found.cause == "native-hang"
    assert "decoder_flush of libcodec.so for another thread to signal a condition variable" in found.summary


def test_a_native_hang_of_which_the_wait_is_not_known_names_the_function() -> None:
    found = hung_in_c("codec", "codec decoder_flush", *CTYPES)
    assert "decoder_flush of libcodec.so for something in native code" in found.summary
    assert any("developers of libcodec.so" in line for line in found.advice)


def rank_in_futex(*texts: str, caller: str = "job.py:12 encode", asks: bool = True) -> Finding:
    """The main thread of rank 1 stands in a futex in a call that may be `Work.wait()`, and rank 0 in one of rank 1's work."""
    one, two = 4121, 4122
    rows: list[Row] = [
        process(), thread(), stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:76 <module>"),
        blocked(ran_at=0.0),
    ]  # fmt: skip
    for number, pid in enumerate((one, two)):
        rows += [
            process(pid, parent=ROOT, forked=False, environment={"RANK": str(number), "WORLD_SIZE": "2"}), thread(pid),
            thread(pid, pid + 60, name="pt_gloo_runloop"),
            stack("main", "torch/distributed/distributed_c10d.py:3252 all_reduce" if pid == one else caller, pid=pid),
            blocked("futex", f"futex:{pid}:0x70", pid=pid, ran_at=0.0), kernel_object(f"futex:{pid}:0x70"),
        ]  # fmt: skip
    rows += [
        *([JoinTarget(pid=two, tid=two, kind="work")] if asks else []),
        *([native(*texts, pid=two)] if texts else []),
    ]
    return first(*rows)


def test_what_the_others_of_a_chain_wait_for_in_c_is_told_too() -> None:
    rows = (
        process(), thread(), stack("main", "job.py:12 collect"), blocked("futex", "futex:4100:0x70", ran_at=0.0),
        native(*COND, "codec decoder_flush", *CTYPES),
    )  # fmt: skip
    assert "main: decoder_flush of libcodec.so" in evidence(first(*rows))
    found = rank_in_futex("libc", "libc sem_wait", *CTYPES)
    assert "rank 1: sem_wait of libc.so.6" in evidence(found)


def test_a_rank_in_a_team_of_threads_is_in_no_collective() -> None:
    assert rank_in_futex().cause != "native-hang"
    assert rank_in_futex(*COND, "cpu c10d::Work::wait").cause == rank_in_futex().cause
    found = rank_in_futex("gomp gomp_team_barrier_wait_end", "codec encode")
    assert (found.cause, [row.pid for row in found.suspects]) == ("native-hang", [4122])
    assert "encode of libcodec.so for the threads of its team" in found.summary


def test_a_wait_for_other_ranks_is_one_whoever_called_it() -> None:
    """Torch's own code for pipelines, which asks for the work of several sends together."""
    found = rank_in_futex(
        "libc pthread_cond_timedwait", "cpu gloo::transport::tcp::UnboundBuffer::waitRecv",
        "cpu c10d::ProcessGroupGloo::RecvWork::wait", caller="torch/distributed/pipelining/schedules.py:683 _wait_batch_p2p",
        asks=False,
    )  # fmt: skip
    assert found.cause == "collective-mismatch"


# Native threads that are waited for

HELPER = ROOT + 7


def with_helper(
    main: tuple[str, ...], helper: tuple[str, ...], *, joins: bool = False, owner: int | None = None
) -> Diagnosis:
    """The main thread is in a call of a library; another thread of the process is not Python's, and sleeps too."""
    lock, other = f"futex:{ROOT}:0x70", f"futex:{ROOT}:0x90"
    # pthread_join(3): of a shared word, with the number of the thread.
    operation, expects = (0x109, HELPER) if joins else (PRIVATE_WAIT, 2)
    args = (0x70, operation, expects, 0, 0, 0)
    rows = [
        process(threads=2), thread(), thread(tid=HELPER), stack("main", "job.py:12 resize"),
        blocked("futex", lock, ran_at=0.0, args=args, joins=HELPER if joins else None), kernel_object(lock, owner_tid=owner),
        blocked("futex", other, tid=HELPER, ran_at=0.0, args=(0x90, PRIVATE_BITSET, 0, 0, 0, 0)), kernel_object(other),
        native(*main),
    ]  # fmt: skip
    return watched(snapshot(*rows, *([helper_stack(*helper)] if helper else [])))


def helper_stack(*texts: str) -> NativeStack:
    """The frames of a thread that is not Python's."""
    return NativeStack(pid=ROOT, tid=HELPER, taken_at=START, frames=frames(*texts)[: len(texts)], end="start")


TEAM = ("gomp gomp_team_barrier_wait_end", "codec resize", *CTYPES)
DECODER = ("libc", "libc sem_wait", "codec decode_frame")
STANDS = (*DECODER, "gomp gomp_thread_start", "libc start_thread")
IDLE = ("gomp gomp_team_barrier_wait_final", "gomp gomp_thread_start", "libc start_thread")


def edges(found: Diagnosis) -> list[tuple[str | None, str]]:
    """Who is in the chain, and what each does, without those who are nobody."""
    return [(link.thread, link.does) for link in found.findings[0].chain if link.pid]


def test_a_team_waits_for_the_one_that_does_not_come() -> None:
    found = with_helper(TEAM, STANDS)
    assert edges(found) == [(None, "the threads of its team"), (f"thread {HELPER}", "a sem_post by another thread")]
    (finding,) = found.findings
    assert (finding.cause, [row.tid for row in finding.suspects]) == ("native-hang", [HELPER])
    assert f"all threads of OpenMP in pid {ROOT} wait except thread {HELPER}" in evidence(finding)
    assert "decode_frame of libcodec.so for a sem_post by another thread" in finding.summary
    (suspect,) = finding.suspects
    assert suspect.frame
    assert suspect.frame.line == 12, "where the library was called"


@pytest.mark.parametrize("helper", [IDLE, DECODER, ()], ids=["idle", "not of the team", "not read"])
def test_a_thread_of_which_frames_do_not_tell_that_it_is_missing_is_not_waited_for(helper: tuple[str, ...]) -> None:
    assert edges(with_helper(TEAM, helper)) == [(None, "the threads of its team")]


def test_a_team_that_was_found_by_searching_is_no_proof() -> None:
    sure, guessed = (graph_need(texts) for texts in (STANDS, (*STANDS[:-1], "?libc start_thread")))
    assert (sure.exact, sure.targets) == (True, ((ROOT, HELPER),))
    assert (guessed.exact, guessed.targets) == (False, ((ROOT, HELPER),))


def graph_need(helper: tuple[str, ...]) -> WaitEdge:
    shown = snapshot(
        process(threads=2), thread(), thread(tid=HELPER), stack("main", "job.py:12 resize"), native(*TEAM), helper_stack(*helper)
    )  # fmt: skip
    edge = native_threads(JobState(history(shown), shown), (ROOT, ROOT))
    assert edge
    return edge


def test_the_end_of_a_thread_is_waited_for_by_its_number() -> None:
    found = with_helper(("libc", "codec decoder_close", *CTYPES), DECODER, joins=True)
    assert edges(found) == [
        (None, f"the end of the native thread {HELPER}"),
        (f"thread {HELPER}", "a sem_post by another thread"),
    ]
    assert "main waits in decoder_close of libcodec.so at job.py:12 in resize" in found.findings[0].summary


def test_a_pool_that_waits_for_work_and_is_joined_has_nobody_to_blame_but_who_joins() -> None:
    found = with_helper(("libc", "codec pool_close", *CTYPES), IDLE, joins=True)
    assert found.findings[0].suspects[0].tid == ROOT


def test_a_native_mutex_leads_to_its_owner_once_that_was_read() -> None:
    main = ("libc", "libc pthread_mutex_lock", "libc dlopen", *CTYPES)
    loads = ("libc", "libc sem_wait", "codec at_load", "libc dlopen", "codec load_plugins")
    found = with_helper(main, loads, owner=HELPER)
    assert (found.findings[0].cause, found.findings[0].suspects[0].tid) == ("native-hang", HELPER)
    assert "main waits for a native mutex, in dlopen of libc.so.6" in found.findings[0].summary
    unread = with_helper(main, (), owner=HELPER)
    assert (unread.verdict, unread.hidden) == (Verdict.UNKNOWN, ((ROOT, HELPER),))


@pytest.mark.parametrize(
    ("texts", "sort"),
    [
        ((*COND, "cpu c10::ivalue::Future::wait", "cpu torch::autograd::Engine::execute", "bindings THPEngine"), Sort.TEAM),
        ((*COND, "cpu c10::ivalue::Future::wait", "cpu torch::jit::wait"), Sort.CONDITION),
        (("libc", "libc sem_wait", "cpu at::native::f", "cpu torch::autograd::Engine::thread_main",
          "cpu torch::autograd::Engine::execute"), Sort.SEMAPHORE),
        (("gomp", "gomp", "codec resize", *CTYPES), Sort.TEAM),
    ],
    ids=["of autograd", "of somebody", "inside of autograd", "libgomp without names"],
)  # fmt: skip
def test_who_waits_for_a_team_is_told_from_who_works_in_it(texts: tuple[str, ...], sort: Sort) -> None:
    found = fact(*texts)
    assert found.wait
    assert found.wait.sort is sort


@pytest.mark.parametrize("texts", [
    ("libc", "libc pthread_cond_timedwait", "cpu gloo::transport::tcp::UnboundBuffer::waitRecv", "cpu c10d::Work::wait"),
    (*COND, "cpu gloo::transport::tcp::UnboundBuffer::waitSend", "cpu c10d::Work::wait"),
])  # fmt: skip
def test_a_collective_is_a_matter_of_ranks_also_where_threads_of_gloo_stand_still(texts: tuple[str, ...]) -> None:
    alone = rank_in_futex()
    found = rank_in_futex(*texts)
    assert (found.cause, found.certainty, found.suspects) == (alone.cause, alone.certainty, alone.suspects)


def test_an_answer_of_the_resolver_comes_from_outside() -> None:
    found = watched(snapshot(
        process(), thread(), stack("main", "job.py:12 connect"), blocked("poll", "socket:7", ran_at=0.0),
        kernel_object("socket:7", path="udp 10.0.0.2:4000 -> 10.0.0.53:53"),
        native("libc __poll", "libc", "libc getaddrinfo", "python socket_getaddrinfo"),
    ))  # fmt: skip
    assert found.findings[0].chain[-1].role == "outside"
    assert "an answer from a name server" in evidence(found.findings[0])


@pytest.mark.parametrize("call", ["poll", "futex", "ioctl"])
def test_who_sleeps_until_its_gpu_is_done_gets_on_as_one_who_burns_its_cpu_meanwhile(call: str) -> None:
    rows = (
        process(), thread(), stack("main", "job.py:12 step"), blocked(call, ran_at=0.0),
        native(f"libc {call}", "cuda", "cuda cuStreamSynchronize", "cudart cudaStreamSynchronize", "cpu at::native::item"),
    )  # fmt: skip
    found = watched(snapshot(*rows))
    assert (found.verdict, found.findings) == (Verdict.HEALTHY, ())
    assert found.processes[0].does == "waiting for its GPU in step() at job.py:12"
    assert watched(snapshot(*rows[:-1], native(f"libc {call}", "codec decode"))).verdict is Verdict.HUNG


def test_what_a_library_leaves_to_do_keeps_a_program_from_its_exit() -> None:
    exits = ("libc", "codec logger_shutdown", "libc exit", "python Py_BytesMain")
    bare = NativeStack(pid=ROOT, tid=ROOT, taken_at=START, frames=frames(*exits)[: len(exits)], end="start")
    assert (native_fact(bare) or fact()).leaves
    assert (native_fact(bare) or fact()).called == "logger_shutdown of libcodec.so"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("codec spin", "codec decode"), "running; when sampled, it was in decode of libcodec.so"),
        (("cuda", "cuda cuStreamSynchronize", "cudart cudaStreamSynchronize", "cpu c10::cuda::CUDAStream::synchronize"),
         "running; when sampled, c10::cuda::CUDAStream::synchronize of libtorch_cpu.so"),
        (("python sre_ucs1_match", "python _sre_SRE_Pattern_match"), ""),
    ],
)  # fmt: skip
def test_a_moment_of_a_thread_that_runs_suggests(texts: tuple[str, ...], words: str) -> None:
    found = native_fact(moment(*texts))
    assert found
    assert found.words.startswith(words) if words else not found.words
    assert (found.certain, found.sampled) == (False, True)


def test_nothing_rests_on_a_moment_of_a_thread_that_runs() -> None:
    row = moment("gomp gomp_team_barrier_wait_end", "gomp GOMP_parallel", "codec decode")
    seen = snapshot(process(), stack("main", "job.py:3 main"), row)
    job = JobState(history(seen), seen)
    assert (ROOT, ROOT) in job.native_hints
    assert job.native_facts == {}


def test_a_moment_of_a_thread_that_runs_does_not_lead_to_all_threads_of_its_process() -> None:
    finding = Finding(
        cause="native-hang", certainty=Certainty.LIKELY, summary="", suspects=(Suspect(pid=ROOT, role="main"),)
    )
    diagnosis = Diagnosis(verdict=Verdict.HUNG, findings=(finding,))
    rows = process(), thread(), thread(tid=CHILD)
    assert basis(diagnosis, snapshot(*rows, native("codec decode"))) == {ROOT: {ROOT, CHILD}}
    assert basis(diagnosis, snapshot(*rows, moment("codec decode"))) == {ROOT: {ROOT}}
