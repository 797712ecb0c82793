"""How a cassette is used."""

from __future__ import annotations

from typing import Literal, TypeAlias

CassetteMode: TypeAlias = Literal["record", "replay", "auto"]
"""`record` asks anew, `replay` never asks, `auto` asks what is not on the cassette."""
