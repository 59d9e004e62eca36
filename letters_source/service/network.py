"""How to reach the service: through which proxy, whose certificates to trust, and which certificate to show."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


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
