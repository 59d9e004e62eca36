"""The emulator checks tokens, and logs each request."""

import pytest
import requests
from served import Serve

from programmable_emulator import Emulator, Hit

NO_ACCESS = (401, {"message": "Access token missing or invalid"})
NO_REFRESH = (401, {"message": "Refresh token missing or invalid"})


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "emulator-access-token"}])
@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_both_listings_require_the_bearer_token(serve: Serve, listing: str, headers: dict[str, str]) -> None:
    """A missing or wrong access token is answered 401."""
    response = serve(Emulator()).get(listing, headers={"refreshtoken": "emulator-refresh-token", **headers})
    assert (response.status_code, response.json()) == NO_ACCESS


@pytest.mark.parametrize("headers", [{}, {"refreshtoken": "wrong"}])
def test_only_contacts_require_the_refresh_token(serve: Serve, headers: dict[str, str]) -> None:
    """A missing or wrong refresh token is answered 401 for contacts and does not matter for templates."""
    client = serve(Emulator())
    sent = {"Authorization": "Bearer emulator-access-token", **headers}
    response = client.get("contacts", headers=sent)
    assert (response.status_code, response.json()) == NO_REFRESH
    assert client.get("templates", headers=sent).status_code == 200


def test_tokens_can_be_rotated_while_serving(serve: Serve) -> None:
    """After a new token is assigned the old one is refused."""
    client = serve(Emulator())
    old = client.tokens()
    client.emulator.access_token = "another"
    assert [client.get("contacts", headers=sent).status_code for sent in (old, client.tokens())] == [401, 200]
    old = client.tokens()
    client.emulator.refresh_token = "one more"
    assert [client.get("contacts", headers=sent).status_code for sent in (old, client.tokens())] == [401, 200]


def test_unknown_paths_and_methods_are_not_found(serve: Serve) -> None:
    """Anything but the two GETs is answered 404 as JSON."""
    client = serve(Emulator())
    response = client.get("letters/7")
    assert (response.status_code, response.json()) == (404, {"message": "No GET /api/v1/letters/7"})
    response = requests.post(f"{client.base_url}/contacts", timeout=10)
    assert (response.status_code, response.json()) == (404, {"message": "No POST /api/v1/contacts"})


def test_every_request_is_logged(serve: Serve) -> None:
    """The log has each request's number, path, raw query and status, in order."""
    client = serve(Emulator())
    client.get("contacts", "page=1&tags=%5B4%5D")
    client.get("templates", headers={})
    client.get("templates", "page=x")
    client.get("nothing")
    assert client.emulator.hits == [
        Hit(1, "/api/v1/contacts", "page=1&tags=%5B4%5D", 200),
        Hit(2, "/api/v1/templates", "", 401),
        Hit(3, "/api/v1/templates", "page=x", 400),
        Hit(4, "/api/v1/nothing", "", 404),
    ]
    client.emulator.hits.clear()
    client.get("templates")
    assert client.emulator.hits == [Hit(5, "/api/v1/templates", "", 200)]
