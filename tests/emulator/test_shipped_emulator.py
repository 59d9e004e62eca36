"""The emulator that `letters demo` and `letters serve` run is the one that the other tests extend."""

import requests
from served import Client

from letters_source import emulator as shipped
from programmable_emulator import TODAY, Emulator

REQUESTS = [
    ("contacts", "", True, 200),
    ("contacts", "page=2&pageSize=7", True, 200),
    ("contacts", "page=99", True, 200),
    ("contacts", 'addressStatus=Verified&search=portland&tags=["house"]&pageSize=50', True, 200),
    ("templates", "page=1&pageSize=3&isShared=true", True, 200),
    ("templates", "search=spring", True, 400),
    ("contacts", "page=x", True, 400),
    ("templates", "", False, 401),
    ("letters/7", "", True, 404),
]


def ask(client: Client, path: str, query: str, *, authorized: bool) -> tuple[int, str, bytes]:
    """Return the status, content type and body of a response."""
    response = client.get(path, query, None if authorized else {})
    return response.status_code, response.headers["Content-Type"], response.content


def test_the_shipped_emulator_gives_the_responses_of_the_programmable_one() -> None:
    """Pages, filters and refusals are byte for byte the same, for the same seed and day."""
    programmable = Emulator(60, 20, seed=3)
    plain = shipped.Emulator(60, 20, seed=3, latency_ms=1, today=TODAY)
    with programmable.serve() as one_url, plain.serve() as other_url, requests.Session() as session:
        one, other = Client(programmable, one_url, session), Client(programmable, other_url, session)
        for path, query, authorized, status in REQUESTS:
            answered = ask(other, path, query, authorized=authorized)
            assert answered[0] == status
            assert answered == ask(one, path, query, authorized=authorized)
