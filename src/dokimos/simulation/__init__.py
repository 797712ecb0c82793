"""Simulated conversations: a model or a script plays the user, turn by turn, of the application under test.

`from dokimos.simulation import ConversationSimulator` imports the one module that is needed, and no other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dokimos.simulation.personas import PERSONAS as PERSONAS
    from dokimos.simulation.personas import Persona as Persona
    from dokimos.simulation.personas import persona_user as persona_user
    from dokimos.simulation.scenarios import Scenario as Scenario
    from dokimos.simulation.scenarios import Simulation as Simulation
    from dokimos.simulation.sides import SimulatedUser as SimulatedUser
    from dokimos.simulation.simulator import ConversationSimulator as ConversationSimulator
    from dokimos.simulation.simulator import EndReason as EndReason
    from dokimos.simulation.users import GoalDrivenUser as GoalDrivenUser
    from dokimos.simulation.users import LLMSimulatedUser as LLMSimulatedUser
    from dokimos.simulation.users import ScriptedUser as ScriptedUser

_MODULE_OF: Final[dict[str, str]] = {
    "ConversationSimulator": "simulator",
    "EndReason": "simulator",
    "GoalDrivenUser": "users",
    "LLMSimulatedUser": "users",
    "PERSONAS": "personas",
    "Persona": "personas",
    "Scenario": "scenarios",
    "ScriptedUser": "users",
    "SimulatedUser": "sides",
    "Simulation": "scenarios",
    "persona_user": "personas",
}

__all__ = [  # written out, since type checkers do not run it
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

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'dokimos.simulation' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"dokimos.simulation.{module}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
