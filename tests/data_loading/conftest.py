"""Fixtures of the data-loading tests: a small hasher, and text-like ids."""

import numpy as np
import pytest
from standin_hasher import StandInHasher


def small_hasher():
    """A hasher over 1000 ids with two layers."""
    return StandInHasher()


@pytest.fixture(scope="session")
def hasher():
    return small_hasher()


@pytest.fixture
def rng():
    return np.random.default_rng(0)
