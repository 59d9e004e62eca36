"""How is the stand-in made, steered and run?"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from letters_source.emulator import loopback, rows
from letters_source.emulator.app import BASE_PATH, Desk, Hit
from letters_source.emulator.behaviour import Behaviour
from letters_source.emulator.canned import CannedAnswers
from letters_source.emulator.limits import build_limiter
from letters_source.emulator.shelf import Shelf

ACCESS = "emulator-access-token"
REFRESH = "emulator-refresh-token"


class Emulator:
    """A letter mailing service on loopback, the same for the same seed.

    Everything may be changed while it is served: rows through the shelves, tokens and behaviour by assigning,
    answers through `canned`, and anything else from `before_answer`, which is called with the emulator and the
    request's number before each answer of a listing.
    """

    def __init__(
        self, contacts: int = 250, templates: int = 40, *, seed: int = 1, behaviour: Behaviour | None = None
    ) -> None:
        self.seed = seed
        self.contacts = Shelf(rows.contacts(seed), contacts)
        self.templates = Shelf(rows.templates(seed), templates)
        self.behaviour = behaviour or Behaviour()
        self.access_token = ACCESS
        self.refresh_token = REFRESH
        self.canned = CannedAnswers()
        self.hits: list[Hit] = []
        self.before_answer: Callable[[Emulator, int], None] | None = None
        self._desk = Desk(self)

    @property
    def behaviour(self) -> Behaviour:
        """How the service misbehaves; assigning another one also starts its rate limit afresh."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.limiter = build_limiter(behaviour)

    @contextmanager
    def serve(self, port: int = 0) -> Iterator[str]:
        """Serve from a background thread while the block runs; yields the base_url. Port 0 takes a free one."""
        with loopback.serve_in_background(self._desk.app(), port) as bound:
            yield _base_url(bound)

    def run_forever(self, port: int, announce: Callable[[str], None]) -> None:
        """Serve until Ctrl-C; `announce` is told the base_url once requests are accepted."""
        loopback.serve_in_foreground(self._desk.app(), port, lambda bound: announce(_base_url(bound)))


def _base_url(port: int) -> str:
    return f"http://{loopback.HOST}:{port}{BASE_PATH}"
