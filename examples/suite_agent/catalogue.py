"""The catalogue as a server of the Model Context Protocol, which the agent starts by itself."""

from mcp.server import MCPServer

BOOKS = {
    "Moby-Dick by Herman Melville": (
        "Whales. A captain hunts the white whale that took his leg, and loses all."
    ),
    "Walden by Henry David Thoreau": (
        "Solitude. A man lives two years in a hut that he has built by a pond."
    ),
}
server = MCPServer("catalogue")


@server.tool()
def find(subject: str) -> list[str]:
    """Find books about a subject."""
    words = subject.lower().split()
    return [
        f"{title}: {text}" for title, text in BOOKS.items() if any(word in text.lower() for word in words)
    ]


if __name__ == "__main__":
    server.run(transport="stdio")
