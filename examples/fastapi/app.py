"""An API whose limits are shared with every process that counts under the same prefix, in Python or in Node.

REDIS_URL            the Redis to count in, redis://127.0.0.1:6379 by default
TIDEGATE_PREFIX      begins every key, "rl" by default
TIDEGATE_TIMEOUT_MS  how long a decision may take, 50 by default
"""

import os

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from tidegate import Limit, Metrics, RateLimit, RedisStore, SlidingWindow, TokenBucket, api_key, first_of, ip

app = FastAPI(title="Tidegate with FastAPI")
metrics = Metrics()

app.add_middleware(
    RateLimit,
    store=RedisStore(
        os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"),
        prefix=os.environ.get("TIDEGATE_PREFIX", "rl"),
        timeout_ms=int(os.environ.get("TIDEGATE_TIMEOUT_MS", "50")),
    ),
    by=first_of(api_key("x-api-key"), ip()),
    limits=[
        Limit("burst", TokenBucket(capacity=10, refill_per_second=0.1)),
        Limit("perIp", SlidingWindow(limit=600, window_ms=60_000), by=ip()),
    ],
    metrics=metrics,
    skip=lambda scope: scope["path"] == "/metrics",
)


@app.get("/")
async def hello() -> dict[str, str]:
    return {"hello": "world"}


@app.get("/metrics", response_class=PlainTextResponse)
async def tell_metrics() -> str:
    return metrics.text()
