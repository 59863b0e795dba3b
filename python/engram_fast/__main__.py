"""`python -m engram_fast` is the command `engram-fast`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
