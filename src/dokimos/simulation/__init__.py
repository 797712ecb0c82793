"""Simulated conversations: somebody plays the user, turn by turn, against the application under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.simulation._personas import PERSONAS as PERSONAS
    from dokimos.simulation._personas import Persona as Persona
    from dokimos.simulation._personas import persona_user as persona_user
    from dokimos.simulation._scenarios import Scenario as Scenario
    from dokimos.simulation._scenarios import Simulation as Simulation
    from dokimos.simulation._sides import SimulatedUser as SimulatedUser
    from dokimos.simulation._simulator import ConversationSimulator as ConversationSimulator
    from dokimos.simulation._simulator import EndReason as EndReason
    from dokimos.simulation._users import GoalDrivenUser as GoalDrivenUser
    from dokimos.simulation._users import LLMSimulatedUser as LLMSimulatedUser
    from dokimos.simulation._users import ScriptedUser as ScriptedUser

_MODULE_OF: Final = {
    "ConversationSimulator": "dokimos.simulation._simulator",
    "EndReason": "dokimos.simulation._simulator",
    "GoalDrivenUser": "dokimos.simulation._users",
    "LLMSimulatedUser": "dokimos.simulation._users",
    "PERSONAS": "dokimos.simulation._personas",
    "Persona": "dokimos.simulation._personas",
    "Scenario": "dokimos.simulation._scenarios",
    "ScriptedUser": "dokimos.simulation._users",
    "SimulatedUser": "dokimos.simulation._sides",
    "Simulation": "dokimos.simulation._scenarios",
    "persona_user": "dokimos.simulation._personas",
}
__all__ = [
    "PERSONAS",
    "ConversationSimulator",
    "EndReason",
    "GoalDrivenUser",
    "LLMSimulatedUser",
    "Persona",
    "Scenario",
    "ScriptedUser",
    "SimulatedUser",
    "Simulation",
    "persona_user",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
