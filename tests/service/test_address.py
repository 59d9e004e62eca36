"""Are two addresses of one service written alike?"""

import pytest

from letters_source.service.address import service_of


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("https://letters.example.org/api/v1", "https://letters.example.org/api/v1"),
        ("HTTPS://Letters.Example.org:443/api/v1//", "https://letters.example.org/api/v1"),
        ("https://letters.example.org:8443/API/v1", "https://letters.example.org:8443/API/v1"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:443/", "http://localhost:443"),
        ("http://[::1]:8765/api/v1", "http://[::1]:8765/api/v1"),
    ],
)
def test_spellings_of_one_service_are_alike(address: str, service: str) -> None:
    """Letter case of scheme and host, default ports and trailing slashes do not matter; paths and other ports do."""
    assert service_of(address) == service
