"""What the launcher starts on every rank: tie the process to its owner before anything slow is imported.

`python -m training.train` does the same work; this module only makes sure that a rank which is still importing torch
cannot be left behind either.
"""

from __future__ import annotations

from training.processes import die_with_parent, watch_owner

if __name__ == "__main__":
    die_with_parent()
    watch_owner()
    from training.train import main

    main()
