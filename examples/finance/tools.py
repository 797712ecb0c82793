"""The tools of the financial assistant."""


def subtract(a: float, b: float) -> float:
    """Return a - b.

    Args:
        a: The number to subtract from.
        b: The number to take away.
    """
    return round(a - b, 6)


def divide(a: float, b: float) -> float:
    """Return a / b.

    Args:
        a: The number to be divided.
        b: The number to divide by.
    """
    if b == 0:
        raise ValueError("b must not be 0")
    return round(a / b, 6)
