"""Benchmarks: ours and what a user would take instead, interleaved in one run, every answer verified."""
