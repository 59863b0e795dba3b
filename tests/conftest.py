"""Hypothesis profiles, and ENGRAM_FAST_REQUIRE_ALL: with it a test that is skipped for want of a package fails."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, settings

# Tests with a number of examples of their own keep it; the slow profile is what looks further.
for name, examples in {"fast": 40, "ci": 200, "slow": 3000}.items():
    # No deadline: the machines that run this are shared, and the first example of a test pays for imports.
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

REQUIRE_ALL = os.environ.get("ENGRAM_FAST_REQUIRE_ALL", "") not in ("", "0")
# No installation brings these; such a skip stays one, and pytest's summary shows it with its reason.
HARDWARE = re.compile(r"\b(CPU|CUDA|GPU|NEON|AVX2|AVX-512|avx2|avx512|neon)\b")


def demand(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Turn a skip into a failure, unless a piece of hardware is what is missing (or the failure was expected)."""
    if not REQUIRE_ALL or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not HARDWARE.search(reason):
        report.outcome = "failed"
        report.longrepr = f"skipped, but ENGRAM_FAST_REQUIRE_ALL is set: {reason.removeprefix('Skipped: ')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    demand(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    demand(report)
    return report
