"""What a response says in words, for messages: one line of bounded length, without tokens or e-mail addresses."""

import json
import re
from typing import Any

from letters_source.service.tokens import Tokens

LONGEST_MESSAGE = 200
# no error document is longer
LONGEST_BODY = 2**16
NAMES = ("message", "error", "detail")
"""The fields of a JSON object that may say what is wrong."""
HIDDEN = "***"
# what a token may look like in any shape, and what an e-mail address looks like
SECRETS = re.compile(r"[\w.~+/=-]{24,}|\S+@\S+")


def service_words(body: bytes, tokens: Tokens) -> str:
    """Return the service's own words after a colon; empty if it has none."""
    words = find_words(body)
    if tokens.access in words or tokens.refresh in words:
        # it repeats the request, and may repeat more of it
        return ""
    plain = "".join(letter if letter.isprintable() else " " for letter in SECRETS.sub(HIDDEN, words))
    line = " ".join(plain.split())[:LONGEST_MESSAGE].rstrip(". ")
    return f": {line}" if line else ""


def find_words(body: bytes) -> str:
    """Return the text of an error document: a field of a JSON object without data, or short plain text."""
    try:
        text = body.decode() if len(body) <= LONGEST_BODY else ""
        document = json.loads(text)
    except (ValueError, RecursionError):
        return plain_text(body)
    if not isinstance(document, dict) or "data" in document:
        return ""
    return next(filter(None, (text_of(document.get(name)) for name in NAMES)), "")


def text_of(value: Any) -> str:
    """Return a field's text, or that of the `message` within it."""
    inner = value.get("message") if isinstance(value, dict) else value
    return inner if isinstance(inner, str) else ""


def plain_text(body: bytes) -> str:
    """Return a body of short plain text; empty for markup, damaged JSON and anything else."""
    try:
        text = body.decode().strip() if len(body) <= LONGEST_MESSAGE else ""
    except ValueError:
        return ""
    return text if text[:1].isalpha() and "<" not in text else ""
