"""The compiled op's folder after a kill: a lock that nobody holds would stop every later launch."""

from __future__ import annotations

import os

from training.toolchain import remove_stale_locks


def test_a_lock_goes_only_once_its_maker_is_gone(tmp_path):
    lock = tmp_path / "op" / "lock"
    lock.parent.mkdir()
    held = os.open(lock, os.O_CREAT | os.O_EXCL)  # as torch.utils.file_baton does
    assert remove_stale_locks(tmp_path) == 0
    os.close(held)  # what a kill leaves: the file without its maker
    assert remove_stale_locks(tmp_path) == 1
    assert not lock.exists()
