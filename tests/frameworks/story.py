"""What every framework is asked to do: two calls at once, one that fails, an answer; then another turn."""

from tool_calling import Turn

QUESTION = "What is the weather in Paris and Rome? Book a flight to the warmer one."
ANSWER = "Rome is warmer, but there is no flight."
SECOND_QUESTION = "And in Oslo?"
SECOND_ANSWER = "Oslo has 3 degrees."
WEATHER = {"Paris": "21 degrees", "Rome": "25 degrees", "Oslo": "3 degrees"}
NO_SEATS = "no seats left"


def first_turn():
    return [
        Turn(calls=(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))),
        Turn(calls=(("book_flight", {"to": "Rome"}),)),
        Turn(ANSWER),
    ]


def second_turn():
    return [Turn(calls=(("get_weather", {"city": "Oslo"}),)), Turn(SECOND_ANSWER)]


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return WEATHER[city]


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise RuntimeError(NO_SEATS)
