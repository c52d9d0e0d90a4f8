"""The limits of tidegate for ASGI applications. What it speaks, docs/protocol.md writes down."""

from .identity import By, Identity, Scope, api_key, first_of, ip
from .metrics import Metrics
from .middleware import RateLimit
from .policies import Limit, SlidingWindow, TokenBucket
from .store import RedisStore

__all__ = [
    "By",
    "Identity",
    "Limit",
    "Metrics",
    "RateLimit",
    "RedisStore",
    "Scope",
    "SlidingWindow",
    "TokenBucket",
    "api_key",
    "first_of",
    "ip",
]
