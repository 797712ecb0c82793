"""What is told within a server when rules change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """That rules have changed; posted with the transaction that changes them."""
