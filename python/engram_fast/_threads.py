"""Whether this process is a data loader's worker, where one thread is the right default."""

from __future__ import annotations

import sys


def in_loader_worker() -> bool:
    """True inside a torch DataLoader worker; torch is asked only where the program has loaded it itself."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
