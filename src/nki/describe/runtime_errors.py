"""Statuses (``NRT_…``) and messages (``TDRV:…``, ``ENC:…``) of the Neuron runtime: their meaning for a kernel.

The runtime writes messages as ``ERROR  TDRV:function  text``. A row names messages by part and function, as they stand
there; its other fields are as in the rows of the compiler. Only public documents and reports are used.
"""

from __future__ import annotations

from typing import Final

from nki.describe.compiler_errors import Row

_STATUS: Final = "Neuron documentation, nrt_status.h"
_TROUBLE: Final = "Neuron documentation, Neuron Runtime Troubleshooting"
_REPORT: Final = "reports in public repositories; no document describes it"

STATUS: Final = {
    "NRT_FAILURE": 1, "NRT_INVALID": 2, "NRT_INVALID_HANDLE": 3, "NRT_RESOURCE": 4, "NRT_TIMEOUT": 5,
    "NRT_HW_ERROR": 6, "NRT_QUEUE_FULL": 7, "NRT_LOAD_NOT_ENOUGH_NC": 9, "NRT_UNSUPPORTED_NEFF_VERSION": 10,
    "NRT_FAIL_HOST_MEM_ALLOC": 11, "NRT_UNINITIALIZED": 13, "NRT_CLOSED": 14, "NRT_QUEUE_EMPTY": 15,
    "NRT_EXEC_UNIT_UNRECOVERABLE": 101, "NRT_EXEC_BAD_INPUT": 1002, "NRT_EXEC_COMPLETED_WITH_NUM_ERR": 1003,
    "NRT_EXEC_COMPLETED_WITH_ERR": 1004, "NRT_EXEC_NC_BUSY": 1005, "NRT_EXEC_OOB": 1006, "NRT_COLL_PENDING": 1100,
    "NRT_EXEC_HW_ERR_COLLECTIVES": 1200, "NRT_EXEC_HW_ERR_HBM_UE": 1201, "NRT_EXEC_HW_ERR_NC_UE": 1202,
    "NRT_EXEC_HW_ERR_DMA_ABORT": 1203, "NRT_EXEC_SW_NQ_OVERFLOW": 1204, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE": 1205,
    "NRT_NETWORK_PROXY_FAILURE": 1206,
}  # fmt: skip
"""Numbers of the statuses; programs print them as ``status=1006`` or ``err: 5``."""

ROWS: Final = (
    # What a kernel can cause
    Row(
        "NRT_EXEC_OOB TDRV:exec_process_custom_notification TDRV:exec_wait_round_robin",
        "An indirect copy (a gather or scatter with data as indices) reached outside of its tensor.",
        "NKI-RG005 NKI-TN001",
        "Run the kernel here with the same indices: the error names the tensor, the index and the line. With "
        "oob_mode=nisa.oob_mode.skip a dma_copy leaves such rows out.",
        f"{_STATUS}; Quickstart: Generating a Neuron runtime core dump",
    ),
    Row(
        "NRT_EXEC_COMPLETED_WITH_NUM_ERR",
        "An engine made a NaN: the model or its input is wrong. On Trainium and Inferentia2 the mark can stay, so that "
        "later runs without a NaN report it, too.",
        "",
        "Look for the NaN with nki.simulate, where print(tile) shows values. Start the program again before you "
        "measure anew.",
        f"{_STATUS}; {_TROUBLE}: Numerical Error; Neuron Runtime Release Notes: known issues",
    ),
    Row(
        "NRT_TIMEOUT TDRV:exec_consume_tpb_status_notifications TDRV:exec_consume_infer_status_notifications",
        "The run did not end in time: an engine waits for what does not come, or the run is longer than the limit.",
        "NKI-KN011 NKI-KN012 NKI-SC006",
        "If the kernel passes here, its cores do not wait for each other for ever. After a custom C++ operator the "
        "cores need a reset: leave NEURON_RT_RESET_CORES out, or set it to 1. NEURON_RT_EXEC_TIMEOUT is the limit. "
        "If the text counts CC notifications, load the driver again: sudo modprobe -r neuron; sudo modprobe neuron.",
        f"{_TROUBLE}: Neuron Runtime timeout or GPSIMD exception; PyTorch Neuron training troubleshooting",
    ),
    Row(
        "TDRV:pool_stdio_queue_consume_all_entries",
        "A program on the GpSimd engine raised an exception, which the text shows.",
        "",
        "After a custom C++ operator the cores need a reset: leave NEURON_RT_RESET_CORES out, or set it to 1.",
        f"{_TROUBLE}: Neuron Runtime timeout or GPSIMD exception",
    ),
    Row(
        "NRT_RESOURCE TDRV:log_dev_mem TDRV:dmem_alloc_internal TDRV:print_lnc_hbm_details "
        "TDRV:log_dev_mem_usage_table",
        "The device has no memory left for a tensor, for code or for the scratchpad; the text names its size and use, "
        "and a table of what each model holds.",
        "NKI-BU003",
        "A tensor that exceeds the memory alone is found here; the sum over all models is not. Unload models, load "
        "fewer buckets or shorter sequences.",
        f"{_STATUS}; Neuron documentation, Neuron Device Memory; Neuron Runtime Troubleshooting: Insufficient Memory",
    ),
    # Loading
    Row(
        "NRT_EXEC_NC_BUSY NRT:nrt_allocate_neuron_cores",
        "Another program holds the core: one core belongs to one process.",
        "",
        "End the other process, a Jupyter kernel for instance, or give each one its cores by NEURON_RT_VISIBLE_CORES.",
        f"{_STATUS}; {_TROUBLE}: Neuron Core is in use; Neuron Runtime environment variables",
    ),
    Row(
        "NRT_LOAD_NOT_ENOUGH_NC TDRV:db_vtpb_get_mla_and_tpb",
        "The program needs more cores than are free on the instance.",
        "NKI-KN006",
        "Unload models that are not in use, launch on fewer cores, or take a larger instance.",
        f"{_STATUS}; {_TROUBLE}: Insufficient number of NeuronCores",
    ),
    Row(
        "NRT_UNSUPPORTED_NEFF_VERSION",
        "The runtime is older or newer than the compiler that wrote the NEFF.",
        "",
        "Install compiler and runtime of one release.",
        f"{_STATUS}; {_TROUBLE}: Unsupported NEFF Version",
    ),
    Row(
        "TDRV:translate_one_pseudo_instr_v2",
        "The NEFF has an instruction that the runtime does not know.",
        "",
        "Upgrade aws-neuronx-runtime-lib and aws-neuronx-collectives.",
        f"{_TROUBLE}: Unsupported Hardware Operator Code",
    ),
    Row(
        "NMGR:dlr_kelf_stage NMGR:stage_kelf_models NMGR:kmgr_load_nn_post_metrics TDRV:kbl_model_add NMGR:dlr_infer",
        "A model was not loaded, or its run failed; the cause is another message, before this one.",
        "",
        "Look up the first ERROR of the log. The number behind `err:` is a status: nki explain NUMBER.",
        f"{_TROUBLE}: Insufficient number of NeuronCores, Neuron Runtime timeout; {_STATUS}",
    ),
    Row(
        "NRT:nrt_init",
        "The driver of the devices is missing, too old for the runtime, or not visible in the container.",
        "",
        "Install aws-neuronx-dkms of the release. In a container pass the device: --device=/dev/neuron0.",
        f"{_TROUBLE}: Application fails to start; aws-neuron-sdk issue 415",
    ),
    Row(
        "HAL:aws_hal_tpb_pooling_write_profile",
        "The driver is older than the framework needs.",
        "",
        "Install aws-neuronx-dkms of the release.",
        f"{_TROUBLE}: Application fails to start",
    ),
    Row(
        "TDRV:tdrv_get_dev_info",
        "There is no Neuron device in this machine.",
        "",
        "Where only a package is built or a graph compiled, it does no harm. Open NKI needs no device.",
        "tutorials for neuronx-nemo-megatron in public repositories",
    ),
    # Ranks
    Row(
        "NRT_EXEC_HW_ERR_COLLECTIVES",
        "A collective did not end: notifications are missing.",
        "",
        "One rank may be late, as while it compiles a graph, or gone. Read the logs of all ranks; if one hangs, start "
        "again from the last checkpoint.",
        f"{_STATUS}; {_TROUBLE}: Communication timeout",
    ),
    Row(
        "ENC:validate_neff_cc_ops ENC:enc_load_operations",
        "The ranks of a group load programs with different collectives.",
        "",
        "Let all ranks trace and compile the same graph, with the same shapes, and empty the cache of compiled graphs "
        "if their releases differed.",
        "the text of the message; aws-neuron-sdk issue 779",
    ),
    Row(
        "ENC:enc_parse_replica_groups TDRV:build_enc_source_target_pairs TDRV:instr_col_translate_ptc2",
        "A collective's replica groups do not name the rank that runs it.",
        "",
        "Put each rank of the program into one list of the ReplicaGroup, and start as many ranks as it names.",
        "the text of the message; aws-neuron-sdk issue 1030",
    ),
    Row(
        "ENC:enc_init_global_comm ENC:ncclInitGlobalComm NRT:nrt_load_collectives",
        "The ranks found no way to communicate. On one instance a package is missing, or the ranks have no link; "
        "between instances EFA is.",
        "",
        "Install aws-neuronx-collectives; between instances the EFA installer, and enable EFA on each.",
        f"{_TROUBLE}: EFA and Collective Communication Errors",
    ),
    Row(
        "ENC:enc_init_comm ENC:enc_init_replica_groups",
        "There is no algorithm for a collective over such a group of ranks: reports have it for degrees of parallelism "
        "that do not fit the topology of the instance.",
        "",
        "Use groups as the distribution library forms them for the instance, such as all cores of a device.",
        _REPORT,
    ),
    Row(
        "ENC:exchange_neighbor_tokens ENC:ncclBootstrapRecv",
        "Ranks lost each other while they started. One cause is `Too many open files` before it.",
        "",
        "Raise the limit of open files (ulimit -n). If the text says that a peer has closed the connection, look for "
        "the rank that ended first.",
        f"aws-neuron-sdk issue 713; {_TROUBLE}: Communication errors",
    ),
    Row(
        "NRT_NETWORK_PROXY_FAILURE",
        "An operation of the network (EFA) failed.",
        "",
        "Look for a rank that has ended, and for the messages of EFA before this one.",
        f"{_STATUS}; {_TROUBLE}: Communication errors",
    ),
    Row("NRT_COLL_PENDING", "A collective still runs: no error yet.", "", "Ask again.", _STATUS),
    # Hardware
    Row(
        "NRT_EXEC_HW_ERR_HBM_UE NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE NRT_EXEC_HW_ERR_NC_UE NRT_EXEC_HW_ERR_DMA_ABORT "
        "NRT_HW_ERROR",
        "The hardware failed: a memory error in HBM (REPAIRABLE: one that can be repaired), a parity error in the "
        "memory of a core, or an error of a DMA engine.",
        "",
        "Start again from the last checkpoint; if it comes back, move to another instance.",
        f"{_STATUS}; {_TROUBLE}: Memory Errors",
    ),
    Row(
        "NRT_EXEC_UNIT_UNRECOVERABLE",
        "A core met a fatal error from which it cannot recover.",
        "",
        "Look for the first ERROR of the log, and start the program again.",
        _STATUS,
    ),
    # Calls of the runtime
    Row(
        "NRT_INVALID NRT_EXEC_BAD_INPUT",
        "A call of the runtime got what it cannot take: a broken NEFF, or tensors of other names or sizes than the "
        "model has.",
        "NKI-KN005",
        "Pass the tensors by the names and in the shapes of the model; `nki info FILE` shows them for a model here.",
        _STATUS,
    ),
    Row(
        "NRT_INVALID_HANDLE NRT_UNINITIALIZED NRT_CLOSED",
        "A call of the runtime before nrt_init, after nrt_close, or with a handle that it did not make.",
        "",
        "It concerns the program around the model; a kernel cannot cause it.",
        _STATUS,
    ),
    Row(
        "NRT_QUEUE_FULL NRT_QUEUE_EMPTY NRT_EXEC_SW_NQ_OVERFLOW",
        "A queue of the runtime is full, empty or has overflowed: runs that wait for their turn, or notifications.",
        "",
        "Wait for earlier runs before you submit the next.",
        _STATUS,
    ),
    Row("NRT_FAIL_HOST_MEM_ALLOC", "The host has no memory left.", "", "Load fewer models in a process.", _STATUS),
    Row(
        "NRT_FAILURE NRT_EXEC_COMPLETED_WITH_ERR",
        "A failure without a status of its own.",
        "",
        "Look up the first ERROR of the log.",
        _STATUS,
    ),
)
