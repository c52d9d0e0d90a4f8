"""Who a request counts for, by what ASGI tells of it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from .keys import address_value, digest

Scope = MutableMapping[str, Any]


@dataclass(frozen=True)
class Identity:
    """`value` is fit for a key: see keys.py."""

    kind: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


# Finds out who a request counts for; None: it cannot tell.
By = Callable[[Scope], Identity | None]


def ip(ipv6_prefix: int = 64) -> Callable[[Scope], Identity]:
    """Counts by the client's address as the server tells it: behind proxies, see README.md."""

    def identify(scope: Scope) -> Identity:
        host = (scope.get("client") or (None,))[0]
        return Identity("ip", address_value(host, ipv6_prefix))

    return identify


def api_key(header: str, secret: str | None = None, verify: Callable[[str], bool] | None = None) -> By:
    """Counts by API key. Without `verify` each invented key is somebody new: put a limit by `ip()` beside."""

    def identify(scope: Scope) -> Identity | None:
        key = header_of(scope, header)
        if not key or (verify and verify(key) is not True):
            return None
        return Identity("key", digest(key, secret))

    return identify


def first_of(*sources: By) -> By:
    """Asks one after the other until one can tell."""

    def identify(scope: Scope) -> Identity | None:
        return next((found for source in sources if (found := source(scope))), None)

    return identify


def header_of(scope: Scope, name: str) -> str | None:
    """A request header as Node has it: Latin-1, several lines joined."""
    wanted = name.lower().encode("latin-1")
    lines = [value.decode("latin-1") for field, value in scope["headers"] if field == wanted]
    return ", ".join(lines) if lines else None
