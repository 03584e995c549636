"""What DeepSpeed compiles at its first start on a CPU, done once and ahead of the ranks.

`deepspeed_shm_comm` is built in every init_distributed on CPU and the ranks would race for it; a killed build leaves a
lock file on which later ones hang, and so does a rank that is killed while it loads what is built. It is compiled with
-march=native and rebuilt when the paths of its headers change, so the folder belongs to one kind of host and one
installation.
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
    """A folder of compiled ops for this host's CPU, Python, library versions and where they lie."""
    versions = [importlib.metadata.version(name) for name in ("torch", "deepspeed")]
    parts = [platform.node(), platform.machine(), cpu_name(), platform.python_version(), *versions, sys.prefix]
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
            remove_stale_locks(folder)
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


def remove_stale_locks(folder: Path) -> int:
    """Remove the locks whose maker is dead; returns how many. torch's loader keeps `lock` open and removes it when it
    is done; it waits without end for one that nobody will remove."""
    stale = [path for path in folder.glob("*/lock") if not is_open(path)]
    if stale:
        time.sleep(0.2)  # one is closed a moment before it is removed
    stale = [path for path in stale if path.exists() and not is_open(path)]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def is_open(path: Path) -> bool:
    """Whether a process that we may look into holds `path` open."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(path.resolve()):
                return True
        except OSError:  # it ended, or is another user's
            continue
    return False
