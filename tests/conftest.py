"""Hypothesis profiles: `fast` by default, `ci`, `slow`; named by HYPOTHESIS_PROFILE."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

for name, examples in {"fast": 40, "ci": 200, "slow": 3000}.items():
    # No deadline: the machines that run this are shared, and the first example of a test pays for imports.
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
