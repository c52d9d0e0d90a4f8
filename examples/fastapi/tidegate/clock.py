"""What the server's clock says, learned from its replies. Twin: packages/core/src/stores/server-clock.ts"""

from __future__ import annotations

import math
from dataclasses import dataclass

# How long a sample is trusted, seconds.
TRUSTED_S = 30


@dataclass(frozen=True)
class _Sample:
    at: float
    round_trip: float
    offset: float


class ServerClock:
    """The sample with the shortest round trip of the last half minute. Ours is a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._best: _Sample | None = None

    @property
    def known(self) -> bool:
        return self._best is not None

    def learn(self, sent: float, received: float, server_us: int) -> None:
        round_trip = received - sent
        best = self._best
        if best and round_trip > best.round_trip and received - best.at < TRUSTED_S:
            return
        self._best = _Sample(received, round_trip, server_us / 1_000_000 - (sent + received) / 2)

    def forget(self) -> None:
        """The server stepped its clock, or is another."""
        self._best = None

    def latest(self, deadline: float) -> int | str:
        """The latest server time, µs, at which a script may run for its answer to be here in time; empty: unknown."""
        best = self._best
        if best is None:
            return ""
        return math.floor((deadline + best.offset - best.round_trip / 2) * 1_000_000)
