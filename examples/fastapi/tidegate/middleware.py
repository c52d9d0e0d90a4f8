"""The middleware: decides about each request, and says so in its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from .headers import Field, Item, fields_of, policy_field, problem_of
from .identity import By, Identity, Scope, header_of, ip
from .metrics import Metrics
from .policies import Limit, Part
from .store import RedisStore, StoreError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_LIMITS = 16

# 304 is an answer about the resource itself; these send the client elsewhere.
REDIRECTS = (301, 302, 303, 307, 308)


class RateLimit:
    """Charges all limits of a request, or none. When Redis cannot decide, the request passes and is counted as such.

    It is plain ASGI, not a BaseHTTPMiddleware: that would cancel what runs behind it when a client hangs up.
    """

    def __init__(
        self,
        app: App,
        *,
        store: RedisStore,
        limits: Sequence[Limit],
        by: By = ip(),
        metrics: Metrics | None = None,
        skip: Callable[[Scope], bool] = lambda scope: False,
    ) -> None:
        names = {limit.name.lower() for limit in limits}
        if not 1 <= len(limits) <= MOST_LIMITS or len(names) < len(limits):
            raise ValueError(f"limits: give 1 to {MOST_LIMITS} limits of different names")
        self._app = app
        self._store = store
        self._limits = limits
        self._by = by
        self._skip = skip
        self._metrics = metrics or Metrics()
        self._policy_field = policy_field(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                return await self._app(scope, receive, send)
            finally:
                await self._store.close()
        if scope["type"] != "http" or is_preflight(scope) or self._skip(scope):
            return await self._app(scope, receive, send)

        items, allowed = await self._decide(scope)
        fields = fields_of(items, allowed) if items else [self._policy_field]
        if allowed:
            return await self._app(scope, receive, with_fields(send, fields))
        await answer_429(send, fields, problem_of(items))

    async def _decide(self, scope: Scope) -> tuple[list[Item], bool]:
        """How each limit stands, nothing when that is not known, and whether the request passes."""
        parts = self._parts_of(scope)
        try:
            outcome = await self._store.decide(
                parts, on_late=lambda: self._count("tidegate_late_replies_total", kind="late")
            )
        except StoreError as error:
            self._count("tidegate_degraded_decisions_total", rule="open", reason=error.reason)
            self._count_policies(["unknown"] * len(parts), rule="open")
            return [], True
        items: list[Item] = []
        for i, part in enumerate(parts):
            words = outcome.words[2 * i : 2 * i + 2]
            limit = part.limit
            items.append(Item(limit, limit.policy.explain(words, outcome.now, limit.cost, outcome.granted)))
        self._count_policies(["allowed" if item.standing.allowed else "refused" for item in items], rule="none")
        return items, outcome.granted

    def _parts_of(self, scope: Scope) -> list[Part]:
        """Each source is asked once, however many limits count by it."""
        found = {by: identity_by(by, scope) for by in {limit.by or self._by for limit in self._limits}}
        return [Part(limit, found[limit.by or self._by]) for limit in self._limits]

    def _count_policies(self, outcomes: Sequence[str], rule: str) -> None:
        for limit, outcome in zip(self._limits, outcomes):
            self._count("tidegate_decisions_total", policy=limit.name, outcome=outcome, rule=rule)

    def _count(self, name: str, **labels: str) -> None:
        self._metrics.count(name, {"limiter": self._store.prefix, **labels})


def identity_by(by: By, scope: Scope) -> Identity:
    """By address where a source cannot tell or fails: no fault lets a request pass uncounted."""
    address = ip()
    try:
        return by(scope) or address(scope)
    except Exception:
        return address(scope)


def is_preflight(scope: Scope) -> bool:
    """A page cannot read the refusal of a CORS preflight, and its request is never sent."""
    names = ("origin", "access-control-request-method")
    return scope["method"] == "OPTIONS" and all(header_of(scope, name) is not None for name in names)


def with_fields(send: Send, fields: Sequence[Field]) -> Send:
    """Adds fields to the response. What the application says itself stands."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", ()))
            said = {bytes(name).lower() for name, _ in own}
            redirects = message["status"] in REDIRECTS
            ours = [field for field in fields if not (redirects and field[0] == "RateLimit")]
            more = [(name, value) for name, value in encoded(ours) if name not in said]
            message = {**message, "headers": [*own, *more]}
        await send(message)

    return wrapped


async def answer_429(send: Send, fields: Sequence[Field], body: bytes) -> None:
    headers = [
        *fields,
        ("Cache-Control", "no-store"),
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(body))),
    ]
    await send({"type": "http.response.start", "status": 429, "headers": encoded(headers)})
    # To HEAD too: servers leave the body out by themselves.
    await send({"type": "http.response.body", "body": body})


def encoded(fields: Sequence[Field]) -> list[tuple[bytes, bytes]]:
    """ASGI wants names in lower case. They are the same to every client."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]
