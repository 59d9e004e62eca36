"""How does the stand-in say no?"""

from collections.abc import Mapping


class Refusal(Exception):
    """A request that is answered with an error status and a JSON message; section 7 shows no body, this one is ours."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
