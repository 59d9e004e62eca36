"""Writes the address of a service in one way, so that two addresses can be compared."""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


def service_of(base_url: str) -> str:
    """Return the scheme, host and path of an address, without a default port or trailing slashes."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{url.port}" if url.port not in (None, DEFAULT_PORTS.get(url.scheme)) else ""
    return f"{url.scheme}://{host}{port}{url.path.rstrip('/')}"
