"""What every peer has: a case of its layout, something to time, and its answer in our shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from benches.cases import Case


class Peer(ABC):
    """A peer ready to hash one batch of ids."""

    adds_offsets: ClassVar[bool] = False
    setup: ClassVar[str] = "pass"
    """A statement before each burst, untimed; `peer` is this object."""

    def __init__(self, case: Case, ids: np.ndarray, threads: int) -> None:
        self.case, self.ids, self.threads = case, ids, threads
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Build what a user would build once."""

    @abstractmethod
    def run(self) -> Any:
        """Hash `self.ids`; what is timed. The answer in whatever form the peer gives it."""

    @abstractmethod
    def arrange(self, answer: Any) -> np.ndarray:
        """An answer of `run` as [L,B,T,C]; not timed."""

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """The rows of any ids, [L,B,T,C], to be compared with ours."""
        other = type(self)(self.case, ids, self.threads)
        return other.arrange(other.run())
