"""Asks the script in Redis, within a deadline. What goes over the wire, docs/protocol.md and lua/README.md say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from . import script
from .clock import ServerClock
from .keys import key_of
from .policies import Part

VERSION = 1
LATE = -1

# What a negative status means, in the words of docs/errors.md.
STATUS = {LATE: "late", -4: "foreign", -5: "broken", -6: "denied"}

# The first that fits holds: redis-py derives some of these from ConnectionError.
ERRORS: Sequence[tuple[type[Exception], str]] = (
    (exceptions.NoPermissionError, "denied"),
    (exceptions.AuthenticationError, "denied"),
    (exceptions.ReadOnlyError, "readonly"),
    (exceptions.BusyLoadingError, "unavailable"),
    (exceptions.TimeoutError, "timeout"),
    (TimeoutError, "timeout"),
    (exceptions.ConnectionError, "connection"),
    (OSError, "connection"),
)

# A connection that says nothing for so long after the deadline is closed, seconds.
SILENCE_S = 1.5


class StoreError(Exception):
    """Redis could not decide. `reason` is a class of docs/errors.md."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Outcome:
    """`words`: two integers of state for each policy. `now`: the server's clock, µs."""

    granted: bool
    now: int
    words: Sequence[int]


class RedisStore:
    """Decides by the script in Redis."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "rl",
        timeout_ms: int = 50,
        max_connections: int = 16,
        lua: script.Script | None = None,
    ) -> None:
        if not 1 <= len(prefix) <= 64 or any(c in "{}\x7f" or c < " " for c in prefix):
            raise ValueError("prefix: give 1 to 64 characters without braces or control characters")
        self.prefix = prefix
        self._timeout_s = timeout_ms / 1000
        self._script = lua or script.load()
        self._clock = ServerClock()
        self._running: set[asyncio.Task[Outcome]] = set()
        silence_s = self._timeout_s + SILENCE_S
        self._pool = BlockingConnectionPool.from_url(
            url,
            max_connections=max_connections,
            timeout=self._timeout_s,
            socket_timeout=silence_s,
            socket_connect_timeout=silence_s,
            # A command that is sent twice would be charged twice.
            retry=Retry(NoBackoff(), 0),
        )
        self._redis = Redis(connection_pool=self._pool)

    async def decide(self, parts: Sequence[Part], on_late: Callable[[], None]) -> Outcome:
        """Raises StoreError, at the deadline at the latest. `on_late` hears of what was charged all the same."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        # A task of its own, which is never cancelled: that would leave its reply on a connection of the pool, and the
        # next one who uses it would take that for its own.
        task = asyncio.create_task(self._ask(parts, deadline))
        self._running.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=self._timeout_s)
        if task.done():
            return task.result()
        task.add_done_callback(lambda task: on_late() if _granted(task) else None)
        raise StoreError("timeout")

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._running.discard(task)
        # Whoever waited may have gone: asyncio complains of an error that nobody has looked at.
        if not task.cancelled():
            task.exception()

    async def close(self) -> None:
        """Waits for what is under way, and closes the connections."""
        if self._running:
            await asyncio.wait(self._running)
        await self._pool.disconnect()

    async def _ask(self, parts: Sequence[Part], deadline: float) -> Outcome:
        try:
            if not self._clock.known:
                await self._learn_time()
            reply = await self._send(parts, deadline)
            if reply[2] == LATE and _time() < deadline:
                # It was not the answer that was slow: the server's clock stepped, or is another server's.
                reply = await self._send(parts, deadline)
        except (exceptions.RedisError, OSError) as error:
            # The next connection may lead to another server, with another clock.
            self._clock.forget()
            reason = next((reason for kind, reason in ERRORS if isinstance(error, kind)), "unknown")
            raise StoreError(reason) from error
        status = reply[2]
        if status < 0:
            raise StoreError(STATUS.get(status, "unknown"))
        return Outcome(status > 0, reply[1], reply[3:])

    async def _learn_time(self) -> None:
        sent = _time()
        seconds, micros = await self._redis.time()
        self._clock.learn(sent, _time(), seconds * 1_000_000 + micros)

    async def _send(self, parts: Sequence[Part], deadline: float) -> list[int]:
        sent = _time()
        if sent >= deadline:
            raise StoreError("timeout")
        keys = [key_of(self.prefix, str(part.identity), part.limit.name, part.limit.policy.tag) for part in parts]
        reply = sound(await self._run(keys, arguments_of(parts, self._clock.latest(deadline))), len(parts))
        if reply[2] == LATE:
            self._clock.forget()
        self._clock.learn(sent, _time(), reply[1])
        return reply

    async def _run(self, keys: list[str], args: list[Any]) -> Any:
        try:
            return await self._redis.evalsha(self._script.sha, len(keys), *keys, *args)
        except exceptions.NoScriptError:
            # Nothing ran, so asking again is safe.
            return await self._redis.eval(self._script.text, len(keys), *keys, *args)


def arguments_of(parts: Sequence[Part], latest: int | str) -> list[Any]:
    """ARGV of one check: a policy table for each policy, in their order. All are charged, or none."""
    count = len(parts)
    args: list[Any] = [VERSION, latest, count, 1]
    for part in parts:
        policy = part.limit.policy
        args += [policy.tag, "e", part.limit.cost, *policy.numbers]
    return [*args, count, *range(1, count + 1), 1, ""]


def sound(reply: Any, policies: int) -> list[int]:
    """The reply to one check: version, now, status, and two integers for each policy."""
    whole = isinstance(reply, list) and len(reply) == 3 + 2 * policies
    if not whole or reply[0] != VERSION or not all(isinstance(each, int) for each in reply):
        raise StoreError("unknown")
    return list(reply)


def _granted(task: asyncio.Task[Outcome]) -> bool:
    return not task.cancelled() and task.exception() is None and task.result().granted


def _time() -> float:
    return asyncio.get_running_loop().time()
