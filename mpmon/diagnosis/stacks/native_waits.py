"""Functions of C and C++ libraries in which a thread waits, and for what, by the names that `mpmon.probes.native` gives
them.

From the innermost frame outwards, the first known function tells the most: `UnboundBuffer::waitRecv` says more than the
`std::condition_variable::wait` that it calls, and more than the `Work::wait` that called it. So the primitives that
libraries wait with (a mutex, a condition) count only if no other function is known. A function that runs foreign code,
as `GOMP_parallel` does, waits itself only if no foreign code is further inside.

Threads that a library started for such work are recognised by their start function, see `helper_of`.

The names are those of torch 2.13 with gloo, TensorPipe and libuv in it, NCCL 2.21 to 2.32, CUDA 12, libgomp of GCC 12
and 14, libomp of LLVM, TBB of oneAPI, OpenBLAS 0.3 and glibc 2.31 to 2.41.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache, lru_cache

import msgspec


class Sort(Enum):
    """What can end a wait."""

    RANKS = "another process of the job"
    GPU = "the GPU"
    TEAM = "other native threads of the process, which work together with it"
    LOCK = "the holder of the lock: a thread of the process"
    SEMAPHORE = "a thread that calls sem_post"
    CONDITION = "a thread of the process that reports something"
    END = "a native thread of the process, by ending"
    NAME_SERVER = "a server on the network"
    PYTHON_LOCK = "a Python thread"
    GIL = "the Python thread that has the GIL"
    NOBODY = "nothing in particular: it is a service thread that waits for work or polls"


FOR_THREADS = frozenset({Sort.TEAM, Sort.END, Sort.LOCK, Sort.CONDITION, Sort.SEMAPHORE})
"""Waits that another thread of the process ends, unknown to Python frames."""


class NativeWait(msgspec.Struct, frozen=True, gc=False):
    """The meaning of a wait in one of several functions."""

    library: str
    """The library's common name: `gloo`."""
    waits_for: str
    """`data from another rank`."""
    sort: Sort
    functions: tuple[str, ...]
    """Patterns of whole names, without parameters and template arguments."""
    runs_others: bool = False
    """The functions run foreign code, in which a thread may wait for something else."""
    runs: str | None = None
    """A pattern of the function of its own library through which it runs foreign code."""


OPENMP = NativeWait("OpenMP", "the threads of its team", Sort.TEAM, (r"(GOMP|gomp|kmp|__kmpc?)_\w+",), True)

_KNOWN = (
    # Service threads, and functions that must be told from them.
    NativeWait("torch.distributed", "collectives to run", Sort.NOBODY, (r"c10d::ProcessGroup(Gloo|Wrapper)::runLoop",)),
    NativeWait("torch.distributed", "messages of other processes", Sort.NOBODY, (
        r"gloo::transport::\w+::Loop::run", r"c10d::detail::\w+Daemon::run",
    )),
    NativeWait("torch.distributed", "its next look at NCCL's work", Sort.NOBODY, (
        r"c10d::ProcessGroupNCCL::(\w+::)?(ncclCommWatchdog|watchdogHandler|runLoop|heartbeatMonitor)",
    )),
    NativeWait("NCCL", "requests of its own rank", Sort.NOBODY, (
        r"ncclProxy(Service|Progress)\w*", r"ncclRasThread\w*", r"ncclIbAsyncThread\w*",
    )),
    NativeWait("TensorPipe", "messages of other processes", Sort.NOBODY, (
        r"tensorpipe::(\w+::)*\w*(Loop|Reactor)\w*::(run|eventLoop|loop)\w*",
    )),
    NativeWait("autograd", "gradients that other threads compute", Sort.TEAM, (r"torch::autograd::ReadyQueue::pop",)),
    # Other ranks.
    NativeWait("gloo", "data from another rank", Sort.RANKS, (r"gloo::(\w+::)*waitRecv\w*",)),
    NativeWait("gloo", "another rank to take its data", Sort.RANKS, (r"gloo::(\w+::)*waitSend\w*",)),
    NativeWait("gloo", "a connection with another rank", Sort.RANKS, (
        r"gloo::(\w+::)*(connect|createConnection|waitUntilConnected|waitForConn)\w*", r"gloo::rendezvous::\w+::\w+",
    )),
    NativeWait("DistributedDataParallel", "the gradients of the other ranks", Sort.RANKS, (r"c10d::Reducer::\w+",), True),
    NativeWait("torch.distributed", "the end of a collective", Sort.RANKS, (
        r"c10d::(\w+::)?\w*Work\w*::(wait|synchronize|blockingWait)\w*",
    )),
    NativeWait("torch.distributed", "the server of the store", Sort.RANKS, (
        r"c10d::detail::(SocketConnectOp::\w+|TCPClient::connect\w*)", r"c10d::TCPStore::(TCPStore|validate|ping)",
    )),
    NativeWait("torch.distributed", "the other ranks to come to the store", Sort.RANKS, (r"c10d::TCPStore::waitForWorkers",)),
    NativeWait("torch.distributed", "a key of the store, which another process sets", Sort.RANKS, (r"c10d::\w*Store::\w+",)),
    NativeWait("NCCL", "the other ranks, to meet them", Sort.RANKS, (
        r"bootstrap\w+", r"(nccl)?[sS]ocket(Accept|Connect|Ready|Progress|Wait|Init|Recv|Send)\w*",
        r"ncclTransport\w*(Setup|Connect)\w*", r"p?ncclCommInit\w*",
    )),
    NativeWait("NCCL", "the other ranks of a collective", Sort.RANKS, (
        r"p?nccl(Group(End|Launch)|AllReduce|Broadcast|Bcast|Reduce|AllGather|Send|Recv|EnqueueCheck)\w*",
        r"p?ncclComm(Abort|Destroy|Finalize|Split)\w*",
    )),
    NativeWait("torch.distributed.rpc", "another process", Sort.RANKS, (r"torch::distributed::rpc::.*", r"tensorpipe::.*")),
    NativeWait("MPI", "other ranks", Sort.RANKS, (r"P?MPI_\w+",)),
    # The GPU.
    NativeWait("CUDA", "the GPU to finish its work", Sort.GPU, (
        r"cu(da)?(Stream|Event|Ctx|Device|Thread)(Synchronize|Query)\w*", r"cu(da)?Mem(cpy|set|Free|Alloc)\w*", r"cudaFree\w*",
        r"cu(da)?Launch\w+", r"cu(Module|Library)(Load|GetFunction)\w*",
    )),
    # Threads that work together.
    OPENMP,
    NativeWait("TBB", "the threads of its pool", Sort.TEAM, (r"tbb::.*", r"rml::.*"), True),
    NativeWait("MKL", "the threads of its pool", Sort.TEAM, (r"mkl_\w*(barrier|thread|omp)\w*",), True),
    NativeWait("OpenBLAS", "the threads of its pool", Sort.TEAM, (
        r"exec_blas\w*", r"blas_(thread|memory_alloc)\w*", r"goto_set_num_threads\w*", r"inner_advanced_thread",
    ), True),
    NativeWait("torch", "the threads of its pool", Sort.TEAM, (
        r"at::parallel_for\w*", r"at::internal::\w+", r"pthreadpool_\w+", r"c10::TaskThreadPoolBase::\w+",
    ), True),
    NativeWait("C", "other threads at a barrier", Sort.TEAM, (r"pthread_barrier_wait", r"std::(barrier|latch)::\w+")),
    # Python.
    NativeWait("Python", "the GIL", Sort.GIL, (
        r"take_gil", r"PyEval_(RestoreThread|AcquireThread)", r"PyGILState_Ensure", r"_PyThreadState_Attach",
    )),
    NativeWait("Python", "a lock of Python's", Sort.PYTHON_LOCK, (
        r"PyThread_acquire_lock\w*", r"_?PyMutex_Lock\w*", r"_PyParkingLot_Park", r"_PySemaphore_Wait", r"_?PyEvent_Wait\w*",
    )),
    # The C library.
    NativeWait("the resolver", "an answer from a name server", Sort.NAME_SERVER, (
        r"getaddrinfo\w*", r"gethostby\w+", r"getnameinfo", r"(__)?res_\w+",
    )),
    NativeWait("the dynamic loader", "the thread that is loading a library: one at a time", Sort.LOCK, (
        r"(__)?dlm?(open|close)\w*", r"_dl_\w*(open|close)\w*",
    ), True),
    NativeWait("C++", "the end of a native thread", Sort.END, (r"std::j?thread::join", r"(__)?pthread_\w*join\w*")),
    NativeWait("autograd", "a backward pass that another thread runs", Sort.TEAM, (
        r"torch::autograd::(python::Python)?Engine::execute\w*",
    ), True, r"torch::autograd::(python::Python)?Engine::thread_main"),
)  # fmt: skip
"""The first row that matches a name counts."""

_MEANS = (
    NativeWait("torch", "a result of other threads", Sort.CONDITION, (r"c10::ivalue::Future::wait\w*",)),
    NativeWait("C", "a sem_post by another thread", Sort.SEMAPHORE, (
        r"sem_(timed|clock)?wait\w*", r"__new_sem_wait\w*", r"std::counting_semaphore::\w+", r"uv_sem_wait",
    )),
    NativeWait("C", "a lock of C code", Sort.LOCK, (
        r"(__)?pthread_(mutex|rwlock|spin)_\w*lock\w*", r"(__)?lll_lock_wait\w*", r"std::\w*mutex::lock\w*",
    )),
    NativeWait("C", "another thread to signal a condition variable", Sort.CONDITION, (
        r"(__)?pthread_cond_\w*wait\w*", r"std::condition_variable\w*::wait\w*", r"std::\w*future\w*::\w*wait\w*",
        r"uv_cond_\w*wait",
    )),
)  # fmt: skip
"""The primitives that libraries wait with."""

_OPENMP_FILES = r"lib(gomp|iomp5|omp5?)(-\w+)?\.so"

_HELPERS = {
    "autograd": r"torch::autograd::(python::Python)?Engine::(reentrant_)?thread_init",
    "OpenMP": r"gomp_thread_start|__kmp_launch_(thread|worker)",
    "OpenBLAS": r"blas_thread_server",
    "TBB": r"(tbb::|rml::)(\w+::)*(rml::)?\w*worker\w*::(run|thread_routine)",
    "torch": r"c10::(ThreadPool|TaskThreadPool)::main_loop",
}
"""Start functions of a library's threads, by the library's name in the rows above."""


LONGEST_NAME = 512
"""Longest name that is looked up: names come from the job, and matching takes the square of their length at worst."""


@lru_cache(maxsize=4096)
def known(function: str) -> NativeWait | None:
    """The wait that a library function means."""
    return _first(_KNOWN, function)


def of_nameless(file: str) -> NativeWait | None:
    """The same for a function without a name, by the name of its file: distributions ship libgomp without the names of
    its waiting functions, and it waits for nothing else.
    """
    return OPENMP if re.match(_OPENMP_FILES, file) else None


@lru_cache(maxsize=4096)
def means(function: str) -> NativeWait | None:
    """The same for the primitives that libraries wait with."""
    return _first(_MEANS, function)


def runs_through(wait: NativeWait, function: str) -> bool:
    """Whether code that runs inside this function is foreign."""
    return wait.runs is not None and len(function) <= LONGEST_NAME and re.fullmatch(wait.runs, function) is not None


@lru_cache(maxsize=4096)
def helper_of(function: str) -> str | None:
    """The library whose threads start with a function."""
    found = (name for name, pattern in _HELPERS.items() if re.fullmatch(pattern, function))
    return next(found, None) if len(function) <= LONGEST_NAME else None


def _first(rows: tuple[NativeWait, ...], function: str) -> NativeWait | None:
    if len(function) > LONGEST_NAME:
        return None
    return next((row for row in rows if _pattern(row).fullmatch(function)), None)


@cache
def _pattern(row: NativeWait) -> re.Pattern[str]:
    """Compiled when needed: most jobs never hang, and the screen has to start fast."""
    return re.compile("|".join(row.functions))
