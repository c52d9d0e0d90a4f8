"""The composed Lua: the very text that Node ships."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

# Committed beside its SHA, so that neither Node nor a build is needed.
SHIPPED = Path(__file__).parents[3] / "packages/core/src/scripts/decide.ts"

MODULE = re.compile(r'sha: "([0-9a-f]{40})",\s*text: `([^`]*)`')


@dataclass(frozen=True)
class Script:
    sha: str
    text: str


def load(path: Path = SHIPPED) -> Script:
    """Out of the module in core, or out of a file that `node lua/compose.js decide` has written."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".lua":
        return Script(_sha(source), source)
    found = MODULE.search(source)
    if not found or _sha(found[2]) != found[1]:
        raise ValueError(f"{path} is no module with a script and its SHA")
    return Script(found[1], found[2])


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8")).hexdigest()
