"""What a response says of limits. Twin: packages/core/src/http/headers.ts, items.ts and problem.ts"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .policies import Limit, Standing

# The most that Retry-After and `t` say, seconds: beyond, the timers of many clients overflow.
LONGEST_S = 2_147_483

Field = tuple[str, str]

PROBLEM = "https://iana.org/assignments/http-problem-types#quota-exceeded"


@dataclass(frozen=True)
class Item:
    """One limit as fields tell of it. `t`: seconds, None when no wait helps."""

    limit: Limit
    standing: Standing

    @property
    def requests(self) -> int:
        """How many more of this cost fit."""
        return self.standing.remaining // (self.limit.cost or 1)

    @property
    def t(self) -> int | None:
        standing, policy = self.standing, self.limit.policy
        if standing.next_ms is None:
            return None
        soon = seconds(standing.next_ms)
        if standing.allowed and standing.remaining > 0:
            # No higher rate than the policy's own.
            share = float(standing.remaining) * window_seconds(self.limit) / policy.limit
            soon = max(soon, math.ceil(share))
        return min(soon, LONGEST_S)


def fields_of(items: Sequence[Item], allowed: bool) -> list[Field]:
    """The fields of a response that Redis has decided about."""
    fields = [policy_field([item.limit for item in items])]
    if told := told_of(items, allowed):
        fields.append(("RateLimit", ", ".join(_limit_text(item) for item in told)))
    wait = None if allowed else retry_after(items)
    if wait is not None:
        fields.append(("Retry-After", str(wait)))
    return fields


def policy_field(limits: Sequence[Limit]) -> Field:
    told = (f'"{limit.name}";q={limit.policy.limit};w={window_seconds(limit)}' for limit in limits)
    return "RateLimit-Policy", ", ".join(told)


def told_of(items: Sequence[Item], allowed: bool) -> list[Item]:
    """All limits when the request passed, otherwise those that refused. The one that binds first comes first."""
    told = [item for item in items if allowed or not item.standing.allowed]
    return sorted(told, key=lambda item: (item.requests, -(math.inf if item.t is None else item.t)))


def _limit_text(item: Item) -> str:
    t = "" if item.t is None else f";t={item.t}"
    return f'"{item.limit.name}";r={item.standing.remaining}{t}'


def retry_after(items: Sequence[Item]) -> int | None:
    """The longest wait of the limits that refused, seconds; None when one of them knows none."""
    waits = [item.standing.next_ms for item in items if not item.standing.allowed]
    known = [wait for wait in waits if wait is not None]
    if len(known) < len(waits):
        return None
    return min(max(1, seconds(max(known, default=0))), LONGEST_S)


def problem_of(items: Sequence[Item]) -> bytes:
    """The body of a refusal."""
    violated = [item.limit.name for item in items if not item.standing.allowed]
    problem = {"type": PROBLEM, "title": "Quota Exceeded", "status": 429, "violated-policies": violated}
    return json.dumps(problem, separators=(",", ":")).encode("ascii")


def window_seconds(limit: Limit) -> int:
    return max(1, math.ceil(limit.policy.window_ms / 1000))


def seconds(ms: int) -> int:
    """Rounded up: who waits that long is let in."""
    return -(-ms // 1000)
