"""Requests to the emulator, for its tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from programmable_emulator import Emulator


@dataclass(frozen=True)
class Client:
    """Sends requests to a served emulator over one keep-alive connection, by default with its tokens."""

    emulator: Emulator
    base_url: str
    session: requests.Session

    def get(self, path: str, params: Any = None, headers: dict[str, str] | None = None) -> requests.Response:
        """Send one request; `params` may be what requests takes, and a text is sent unchanged."""
        sent = self.tokens() if headers is None else headers
        return self.session.get(f"{self.base_url}/{path}", params=params, headers=sent, timeout=10)

    def tokens(self) -> dict[str, str]:
        """The two headers that the emulator requires at the moment."""
        return {
            "Authorization": f"Bearer {self.emulator.access_token}",
            "refreshtoken": self.emulator.refresh_token,
        }

    def data(self, path: str, params: Any = None) -> dict[str, Any]:
        """The data of an envelope."""
        response = self.get(path, params)
        assert response.status_code == 200, response.text
        data: dict[str, Any] = response.json()["data"]
        return data

    def ids(self, path: str, params: Any = None) -> list[str]:
        """The ids of a page."""
        return [row["id"] for row in self.data(path, params)["rows"]]

    def statuses(self, path: str, times: int) -> list[int]:
        """The statuses of that many equal requests."""
        return [self.get(path).status_code for _ in range(times)]


Serve = Callable[[Emulator], Client]
