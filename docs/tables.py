"""Tables in Markdown, as the parts that are made from the code use them."""


def table(head, rows):
    """Return a table; what would end a cell or begin markup in it is escaped."""
    lines = [row(head), f"|{'---|' * len(head)}", *map(row, rows)]
    return "\n".join(lines)


def row(cells):
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def code(text):
    return f"`{text}`"
