"""What DeepSpeed compiles at its first start on a CPU, done once and ahead of the ranks.

`deepspeed_shm_comm` is built in every init_distributed on CPU and the ranks would race for it; a killed build leaves a
lock file on which later ones hang. It is compiled with -march=native, so the folder belongs to one kind of host.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from training.environment import cpu_name

BUILD = "from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder; ShareMemCommBuilder().load()"


class ToolchainError(RuntimeError):
    """A program that DeepSpeed needs to build its CPU communication op is missing, or the build failed."""


def search_path() -> str:
    """PATH with the interpreter's own folder first: pip puts ninja there."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def check_toolchain() -> None:
    """Raise ToolchainError, in one line, unless g++ and ninja can be found."""
    missing = [name for name in ("g++", "ninja") if shutil.which(name, path=search_path()) is None]
    if missing:
        raise ToolchainError(
            f"DeepSpeed on CPU compiles an op and needs {' and '.join(missing)}, not found in PATH: install "
            "(Debian: apt install g++; pip install ninja), or train with backend: torch"
        )


def extensions_dir() -> Path:
    """A folder of compiled ops for this host's CPU, Python and library versions."""
    versions = [importlib.metadata.version(name) for name in ("torch", "deepspeed")]
    parts = [platform.node(), platform.machine(), cpu_name(), platform.python_version(), *versions]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "danlu" / f"torch-extensions-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"


def prebuild(environment: dict[str, str]) -> float:
    """Build the op into TORCH_EXTENSIONS_DIR unless it is there; returns the seconds it took."""
    folder = Path(environment["TORCH_EXTENSIONS_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with (folder / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "ready").exists():
            return 0.0
        for stale in folder.glob("*/lock"):  # ours is the only build: this is a killed one's
            stale.unlink()
        command = [sys.executable, "-c", BUILD]
        answer = subprocess.run(command, env=environment | {"MAX_JOBS": "2"}, capture_output=True, text=True)
        if answer.returncode != 0:
            tail = "\n".join((answer.stdout + answer.stderr).splitlines()[-15:])
            raise ToolchainError(f"building DeepSpeed's CPU communication op failed in {folder}:\n{tail}")
        (folder / "ready").touch()
    return time.monotonic() - started
