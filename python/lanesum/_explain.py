"""Decisions, for people and programs."""

from __future__ import annotations

from typing import Any


class Explanation(dict[str, Any]):
    """The decision for a request: its facts by name. `str()` gives them as text for people."""

    def __init__(self, facts: dict[str, Any], text: str) -> None:
        super().__init__(facts)
        self.text = text

    def __str__(self) -> str:
        return self.text
