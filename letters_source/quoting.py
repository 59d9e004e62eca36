"""How is a text written in SQL, where no value can be bound to the query?"""


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
