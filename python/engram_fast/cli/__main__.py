"""`python -m engram_fast.cli` is `engram-fast`."""

from __future__ import annotations

from .app import main

main()
