"""torch.distributed: process groups, their rendezvous, and torchrun."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, collectives, functions, waits

_COLLECTIVES = (
    "all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_into_tensor all_gather_single "
    "all_gather_coalesced gather scatter reduce_scatter reduce_scatter_tensor reduce_scatter_single all_to_all "
    "all_to_all_single barrier monitored_barrier "
    "all_gather_object gather_object broadcast_object_list scatter_object_list send recv isend irecv "
    "send_object_list recv_object_list batch_isend_irecv wait _sync_buffers"
)

POINT_TO_POINT = frozenset(
    {"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "batch_isend_irecv"}
)
"""Operations between two ranks."""

PASSED_ON = frozenset(
    {"broadcast", "broadcast_object_list", "scatter", "scatter_object_list", "recv", "recv_object_list"}
)
"""Operations that bring a rank what another one has: with these, a rank that serves hands on its requests."""

ASYNCHRONOUS = "an asynchronous operation"
"""The operation of a rank whose own code called `Work.wait()`: any collective or point-to-point operation."""

LIBRARY = Library(
    waits=(
        waits(Wait.DEBUGGER, "torch/distributed/_debug.py", "breakpoint", "a breakpoint"),
        waits(Wait.LAUNCHER, "torch/distributed/elastic/agent/server/api.py", "run _invoke_run", "its ranks"),
        waits(Wait.LAUNCHER, "torch/distributed/elastic/multiprocessing/api.py", "wait _poll join", "its ranks"),
        waits(Wait.RENDEZVOUS, "torch/distributed/rendezvous.py", "_create_c10d_store _env_rendezvous_handler next_rendezvous"),
        collectives("torch/distributed/distributed_c10d.py", "new_group"),
        waits(Wait.RENDEZVOUS, "torch/distributed/distributed_c10d.py", "init_process_group _new_process_group_helper "
         "_store_based_barrier", "init_process_group"),
        waits(Wait.RENDEZVOUS, "elastic/rendezvous/static_tcp_rendezvous.py", "next_rendezvous", "the rendezvous of its nodes"),
        waits(Wait.RENDEZVOUS, "elastic/rendezvous/dynamic_rendezvous.py", "next_rendezvous", "the rendezvous of its nodes"),
        waits(Wait.RENDEZVOUS, "torch/distributed/elastic/utils/store.py", "get_all synchronize barrier store_timeout"),
        collectives("torch/distributed/distributed_c10d.py", _COLLECTIVES),
        collectives("torch/distributed/_functional_collectives.py", "wait_tensor all_reduce all_gather_tensor "
         "reduce_scatter_tensor broadcast all_to_all_single"),
        collectives("torch/nn/parallel/distributed.py", "_sync_buffers _verify_param_shape_across_processes "
         "_sync_module_states join forward", "DistributedDataParallel"),
        collectives("torch/distributed/utils.py", "_sync_params_and_buffers _verify_param_shape_across_processes"),
        collectives("torch/distributed/algorithms/join.py", "__exit__ notify_join_context"),
    ),
    launchers=("torchrun", "torch.distributed.run", "torch.distributed.launch"),
    launches=(functions("torch/distributed/elastic/agent/server/api.py"), functions("torch/distributed/run.py")),
    # torch/csrc/distributed/c10d names them; threads do not survive a fork.
    rank_threads=frozenset({"pt_gloo_runloop", "gloo_tcp_loop", "pt_nccl_watchdg", "pt_nccl_heartbt"}),
    rank_words=(
        "rank", "local_rank", "global_rank", "node_rank", "group_rank", "world_rank", "my_rank", "get_rank", "rank_zero",
        "is_main", "is_main_process", "is_local_main_process", "is_master", "is_chief", "is_leader", "is_global_zero",
        "is_rank_zero", "main_process",
    ),
    # Parameters are gathered before, gradients reduced after a pass.
    phases=(
        ("fsdp/_fully_shard/_fsdp_param_group.py", ("pre_forward", "post_forward", "pre_backward", "post_backward")),
        ("fsdp/_runtime_utils.py", ("_pre_forward", "_post_forward", "_pre_backward_hook", "_post_backward_hook")),
    ),
)  # fmt: skip
