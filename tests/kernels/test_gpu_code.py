"""Every Triton kernel becomes machine code for an H100 or H200 on any Linux machine, without spilling a register."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import importlib, subprocess, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

LAUNCHES = [  # the constants that each launcher chooses: widths of 2048 and 5120, 32 heads of 64 and 128, V 85,000
    ("rms_norm", "_forward", {"ROWS": 2, "WIDTH": 2048, "num_warps": 8}),
    ("rms_norm", "_backward", {"ROWS": 1, "WIDTH": 8192, "num_warps": 16}),
    ("rotary", "_rotate", {"HEADS": 32, "HALF": 32, "BACKWARD": False, "num_warps": 4}),
    ("rotary", "_rotate", {"HEADS": 32, "HALF": 64, "BACKWARD": True, "num_warps": 8}),
    ("swiglu", "_forward", {"BLOCK": 1024}),
    ("swiglu", "_backward", {"BLOCK": 1024}),
    ("cross_entropy", "_loss_and_gradient", {"GRADIENT": True, "BLOCK": 8192, "num_warps": 16}),
]
POINTERS = {"inverse_ptr": "*fp32", "dw_ptr": "*fp32", "terms_ptr": "*fp32", "targets_ptr": "*i64"}
for operation, name, constants in LAUNCHES:
    kernel = getattr(importlib.import_module(f"kernels.{operation}.triton"), name)
    options = {"num_warps": constants.pop("num_warps", 4)}
    signature = {}
    for argument in kernel.arg_names:
        scalar = "fp32" if argument in ("eps", "z_loss") else "i32"
        signature[argument] = POINTERS.get(argument, "*bf16") if argument.endswith("_ptr") else scalar
        if argument in constants:
            signature[argument] = "constexpr"
    source = ASTSource(kernel, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    path = f"{sys.argv[1]}/{operation}{name}.cubin"
    open(path, "wb").write(compiled.asm["cubin"])
    tool = triton.knobs.nvidia.cuobjdump.path
    print(operation, name, subprocess.run([tool, "--dump-resource-usage", path], capture_output=True, text=True).stdout)
"""


def test_each_kernel_compiles_for_hopper_and_spills_nothing(tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed: pip install triton==3.7.1")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": ""}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    usage = re.findall(r"REG:(\d+) STACK:(\d+) .*? LOCAL:(\d+)", done.stdout)
    print(done.stdout)
    assert len(usage) == 7, done.stdout
    assert all((stack, local) == ("0", "0") for _, stack, local in usage), done.stdout
