"""What the usual failures of a distributed run mean: a line of advice for each text that libraries leave in the log.

The texts are those of torch, gloo, NCCL, the kernel and ssh, matched without case; docs/multi-node.md prints the table
and says in which order to look. Order matters: the cause stands before what it brings about on the other ranks.
"""

from __future__ import annotations

import re

HINTS: tuple[tuple[str, str], ...] = (
    (
        r"permission denied \(publickey|host key verification failed|permission denied, please try again",
        "the remote shell must log in without a question: set up keys and known_hosts for every host of the hostfile",
    ),
    (
        r"could not resolve hostname|name or service not known|temporary failure in name resolution",
        "a host name does not resolve: write an address into the hostfile or set hosts.master_addr",
    ),
    (
        r"can't cd to|cd: .*no such file|exec: .*not found|no module named training",
        "the checkout and its .venv must stand at the same path on every host",
    ),
    (
        r"return code = -9\b|\(sigkill\)|out of memory: killed process|oom-kill",
        "a process got SIGKILL; if nobody sent it, the kernel ran out of memory: look at `dmesg` on its host, lower "
        "micro_batch_size or raise zero_stage",
    ),
    (
        r"cuda out of memory|outofmemoryerror",
        "a GPU is full: lower micro_batch_size, raise zero_stage, or look with nvidia-smi for who else is on it",
    ),
    (
        r"/dev/shm.*no space left|no space left.*/dev/shm|shared memory segment|bus error|return code = -7\b",
        "/dev/shm is full or small: free it (`ls /dev/shm`), or give a container --shm-size=16g",
    ),
    (
        r"no space left on device|errno 28|disk quota exceeded",
        "a disk is full: `df -h` for the store and /tmp; lower keep_checkpoints",
    ),
    (
        r"address already in use|eaddrinuse",
        "another process holds the rendezvous port: set hosts.master_port to 0 or a free one, and look for an earlier "
        "run with `ss -ltnp`",
    ),
    (
        r"no socket interface found|unable to find address for|unable to find interface|no usable listening interface"
        r"|no route to host|network is unreachable",
        "the wrong network interface: set hosts.network_interface to the one of `ip -br addr` that reaches the others",
    ),
    (
        r"cannot connect to the first host|connection refused|connect timeout|client socket has timed out",
        "a rank could not reach another: see that hosts.master_addr answers (`ping`, `nc -vz ADDR PORT`) and that no "
        "firewall stands between; gloo and NCCL also use ports of net.ipv4.ip_local_port_range",
    ),
    (
        r"error 12\b.*vendor err|ibv_wc_retry_exc_err|ibv_modify_qp.*(timed out|failed)|call to ibv_",
        "the InfiniBand or RoCE fabric failed: compare `ibstat`, firmware and MTU on both ends; NCCL_IB_DISABLE=1 "
        "shows whether all else is sound, NCCL_IB_TIMEOUT=22 bridges a busy fabric",
    ),
    (
        r"mismatched? nccl version|nccl version mismatch|ncclinvalidusage|message truncated : received",
        "ranks do not speak the same NCCL: the same torch build on every host, and no other libnccl in LD_LIBRARY_PATH",
    ),
    (
        r"unhandled system error|ncclsystemerror|ncclunhandledsystemerror",
        "NCCL's call of the system failed: the NCCL WARN lines above name it (NCCL_DEBUG=INFO says more); usual are "
        "the interface, /dev/shm and `ulimit -l` for InfiniBand",
    ),
    (
        r"driver version is insufficient|no kernel image is available",
        "torch's CUDA build does not fit the driver or the GPU: compare nvidia-smi with torch.version.cuda",
    ),
    (
        r"watchdog caught collective|collective operation timeout|timed out waiting \d+ms|nccl timeout",
        "a rank did not come to a collective: the host whose log ends first is the one to look at; with all alive, "
        "compare driver, firmware and MTU (docs/multi-node.md)",
    ),
    (
        r"connection closed by peer|connection reset by peer|socket closed|broken pipe",
        "another rank ended first; this one only lost it. Look further up for the first error",
    ),
    (
        r"no step, save or evaluation ended",
        "a rank hangs: the lines `rank N: process` tell what each did, disk-sleep being a dead file system and stopped "
        "a frozen process; `py-spy dump --pid` says more while it runs; raise stall_timeout_seconds if a step may take "
        "so long",
    ),
)


def hints(text: str) -> list[str]:
    """The advice that fits `text`, causes first."""
    return [hint for pattern, hint in HINTS if re.search(pattern, text, flags=re.IGNORECASE)]


def with_hints(message: str, text: str) -> str:
    """`message` and below it the advice that fits `text`."""
    return "\n".join([message, *(f"hint: {hint}" for hint in hints(text))])
