"""How to reach the service: its address, the proxy, the certificates to trust, and the client's own certificate."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Network:
    """The settings of connections, all empty by default; the proxy may have a user and a password."""

    proxy: str = field(default="", repr=False)
    ca_bundle: str = ""
    client_cert: str = ""
    client_key: str = ""

    @property
    def proxies(self) -> dict[str, str]:
        """The proxy of each scheme, as requests takes them."""
        return dict.fromkeys(("http", "https"), self.proxy) if self.proxy else {}

    @property
    def proxy_address(self) -> str:
        """The proxy without its user and password."""
        url = urlsplit(self.proxy)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"

    @property
    def certificate(self) -> tuple[str, str] | str | None:
        """The client certificate, and the file of its key if it has one, as requests takes them."""
        return (self.client_cert, self.client_key) if self.client_key else self.client_cert or None


DIRECT = Network()
"""No proxy, public certificates, no client certificate."""


def service_of(base_url: str) -> str:
    """Return the scheme, host and path of an address, without a default port or trailing slashes."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{url.port}" if url.port not in (None, DEFAULT_PORTS.get(url.scheme)) else ""
    return f"{url.scheme}://{host}{port}{url.path.rstrip('/')}"
