"""A function that the agent can call; its signature and its docstring are what the model is told."""

HOURS = {"saturday": "from 10 to 14", "sunday": "closed"}


def opening_hours(day: str) -> str:
    """Say when the library is open.

    Args:
        day: A day of the week.
    """
    return HOURS.get(day.lower(), "from 9 to 18")
