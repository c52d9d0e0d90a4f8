"""Counters, under the names and labels that docs/operations.md has: the same alerts serve both languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

HELP = {
    "tidegate_decisions_total": "What each policy said of each decision. rule: the failure rule, or none.",
    "tidegate_degraded_decisions_total": "Decisions of a failure rule, by the rule and by what the store failed with.",
    "tidegate_late_replies_total": "late: granted when the failure rule had answered already.",
}


class Metrics:
    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in HELP}

    def count(self, name: str, labels: Mapping[str, str]) -> None:
        self.counts[name][",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())] += 1

    def text(self) -> str:
        """As Prometheus reads it."""
        lines: list[str] = []
        for name, counts in self.counts.items():
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} counter"]
            lines += [f"{name}{{{labels}}} {count}" for labels, count in counts.items()]
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
