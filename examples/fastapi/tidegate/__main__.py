"""Prints keys, to compare them with those of another language.

`python3 -m tidegate` reads JSON, one list a line, and prints what stands for each in keys: ["id", text],
["user", text], ["key", API key], ["key", API key, secret], ["ip", address], ["ip", address, prefix].
"""

import json
import sys
from collections.abc import Callable

from .keys import address_value, digest, safe_value

MADE_BY: dict[str, Callable[..., str]] = {"id": safe_value, "user": safe_value, "key": digest, "ip": address_value}

for line in sys.stdin:
    kind, *given = json.loads(line)
    print(f"{kind}:{MADE_BY[kind](*given)}")
