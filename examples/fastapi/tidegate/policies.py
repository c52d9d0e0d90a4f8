"""Policies: the numbers that the script gets, and what the state that it answers means.

Twin: packages/core/src/algorithms/. Times are whole microseconds of the server's clock, since 1970. Where a product may
be beyond 2^53 it is made of doubles, as in Lua and in JavaScript: exact integers would round otherwise.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from .identity import By, Identity

MICRO = 1_000_000

# What doubles count exactly, what a window's 32 bits hold, and ten years.
MOST_TOKENS = 9_007_199_254
MOST_IN_WINDOW = 2**32 - 1
LONGEST_MS = 315_576_000_000

# Valid as a String and as a Token of structured fields, and harmless in a key.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Standing:
    """What a policy says of a request. Milliseconds, rounded up; `next_ms` is None when no wait helps."""

    remaining: int
    next_ms: int | None
    full_ms: int
    reason: str

    @property
    def allowed(self) -> bool:
        return self.reason == "ok"


class Policy(Protocol):
    tag: ClassVar[str]

    @property
    def limit(self) -> int:
        """Units: what a client may use at once."""

    @property
    def window_ms(self) -> float:
        """The span the limit belongs to; for a bucket, from empty to full."""

    @property
    def numbers(self) -> tuple[int, int | float, int | float, int]:
        """Lifetime, a, b, c: as a policy table of lua/README.md wants them."""

    def explain(self, words: Sequence[int], now: int, cost: int, granted: bool) -> Standing:
        """`granted`: the integers are of after the charge; else the policy says for itself whether it has room."""


@dataclass(frozen=True)
class TokenBucket:
    """Bursts up to `capacity`, `refill_per_second` in the long run."""

    capacity: int
    refill_per_second: float
    tag: ClassVar[str] = "tb"

    def __post_init__(self) -> None:
        _whole("capacity", self.capacity, MOST_TOKENS)
        if not 0 < self.refill_per_second < math.inf:
            raise ValueError(f"refill_per_second: give a number above 0, got {self.refill_per_second!r}")
        if self.window_ms > LONGEST_MS:
            raise ValueError("refill_per_second: from empty to full would take more than ten years")

    @property
    def limit(self) -> int:
        return self.capacity

    @property
    def window_ms(self) -> float:
        return self.capacity / self.refill_per_second * 1000

    @property
    def numbers(self) -> tuple[int, int | float, int | float, int]:
        # A bucket may be in debt by as much as it holds: then it takes twice as long.
        return math.ceil(self.window_ms * 2000), self.capacity, self.refill_per_second, 0

    def explain(self, words: Sequence[int], now: int, cost: int, granted: bool) -> Standing:
        micro, counted_at = words
        rate = float(self.refill_per_second)

        def at(moment: int) -> int:
            """Millionths of a token. A moment before the count (the clock stepped back) refills nothing."""
            return min(self.capacity * MICRO, micro + math.floor(max(0, moment - counted_at) * rate))

        def until(tokens: int) -> int:
            return first_ms(lambda ms: at(now + ms * 1000) >= tokens * MICRO)

        available = at(now)
        remaining = min(max(available // MICRO, 0), self.capacity)
        full_ms = until(self.capacity)
        if granted or available >= cost * MICRO:
            return Standing(remaining, until(min(remaining + 1, self.capacity)), full_ms, "ok")
        if cost > self.capacity:
            return Standing(remaining, None, full_ms, "never")
        return Standing(remaining, until(cost), full_ms, "limit")


@dataclass(frozen=True)
class SlidingWindow:
    """About `limit` units per window, from two counters."""

    limit: int
    window_ms: int
    tag: ClassVar[str] = "sw"

    def __post_init__(self) -> None:
        _whole("limit", self.limit, MOST_IN_WINDOW)
        _whole("window_ms", self.window_ms, LONGEST_MS, least=1)

    @property
    def numbers(self) -> tuple[int, int | float, int | float, int]:
        return self.window_ms * 2000, self.limit, self.window_ms * 1000, 0

    def explain(self, words: Sequence[int], now: int, cost: int, granted: bool) -> Standing:
        window = self.window_ms * 1000
        # -1 in the second place: the first one is all that was counted.
        current, previous = words[0], max(0, words[1])

        def free(moment: int) -> float:
            """Units that are left, times the window."""
            age = moment // window - now // window
            here, before = (current, previous) if age == 0 else (0, current) if age == 1 else (0, 0)
            rest = window - moment % window
            return float(self.limit - here) * window - float(before) * rest

        def fits(units: int, moment: int) -> bool:
            return units == 0 or free(moment) / (float(units) * window) >= 1

        def until(units: int) -> int:
            return first_ms(lambda ms: fits(units, now + ms * 1000))

        remaining = min(max(math.floor(free(now) / window), 0), self.limit)
        full_ms = self._full_ms(current, previous, window - now % window)
        if granted or fits(cost, now):
            return Standing(remaining, until(min(remaining + 1, self.limit)), full_ms, "ok")
        if cost > self.limit:
            return Standing(remaining, None, full_ms, "never")
        return Standing(remaining, until(cost), full_ms, "limit")

    def _full_ms(self, current: int, previous: int, rest: int) -> int:
        if current > 0:
            rest += self.window_ms * 1000
        return math.ceil(rest / 1000) if current > 0 or previous > 0 else 0


@dataclass(frozen=True)
class Limit:
    """A policy in its place. `by`: who it counts, where it is not who the others count."""

    name: str
    policy: Policy
    by: By | None = None
    cost: int = 1

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"a name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first, got {self.name!r}")
        _whole("cost", self.cost, MOST_TOKENS)


@dataclass(frozen=True)
class Part:
    """A limit as it stands for one request."""

    limit: Limit
    identity: Identity


def first_ms(passes: Callable[[int], bool]) -> int:
    """The fewest whole milliseconds after which `passes` holds. It must stay true once it is."""
    high = 1
    while not passes(high):
        high *= 2
    return bisect_left(range(high), True, key=passes)


def _whole(name: str, value: int, most: int, least: int = 0) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name}: give a whole number from {least} to {most}, got {value!r}")
