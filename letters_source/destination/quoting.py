"""How are texts quoted: ours in SQL, where no value can be bound to the query, and DuckDB's in our messages?"""


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def plain_cause(error: Exception) -> str:
    """DuckDB's reason without its kind, its advice, its link and its full stop: who holds a lock is in it."""
    return without_advice(str(error).split(": ", 1)[-1])


def without_advice(words: str) -> str:
    """What DuckDB says, to where it begins to tell what one might do."""
    return words.strip().split("\n")[0].split(" See also ")[0].split(". However, ")[0].rstrip(".")
