"""Checks of the settings that say how to reach the service: its address, the proxy, and files of certificates."""

import os
import re
import ssl
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from letters_source.config.messages import unusable
from letters_source.errors import SettingsError
from letters_source.service.network import Network

# how OpenSSL finds certificates in a folder
HASHED_NAME = re.compile(r"[0-9a-f]{8}\.\d+")
PROXY_FORM = (
    "must be an address such as http://host:3128; a user and a password go before the host, as user:password@, "
    "with special characters percent-encoded"
)


def check_network(base_url: str, network: Network) -> None:
    """Raise if an address is unusable, or a file of certificates is missing or has none."""
    check_base_url(base_url)
    if network.proxy:
        check_proxy(network.proxy, base_url)
    if network.ca_bundle:
        check_ca_bundle(network.ca_bundle)
    if network.client_cert:
        check_client_cert(network.client_cert, network.client_key)
    elif network.client_key:
        raise unusable("client_cert", "is not set, but client_key is")


def check_base_url(base_url: str) -> None:
    """Raise unless base_url is https, or http to loopback, without user, query or fragment."""
    try:
        url = urlsplit(base_url)
        plain = url.hostname and url.port != 0 and base_url.isprintable() and not set(base_url) & set(" ?#@\\")
    except ValueError:
        plain = False
    if not plain or url.scheme not in ("http", "https"):
        raise unusable("base_url", "must be an address such as https://host/api/v1, without user, query or fragment")
    if url.scheme == "http" and not is_loopback(str(url.hostname)):
        raise unusable("base_url", "must begin with https://, since tokens are sent there")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_proxy(proxy: str, base_url: str) -> None:
    """Raise unless a proxy is an http or https address, on this machine if tokens would reach it in clear."""
    try:
        url = urlsplit(proxy)
        usable = is_proxy(url) and proxy.isprintable() and not set(proxy) & set(" ?#\\")
    except ValueError:
        usable = False
    if not usable:
        raise unusable("proxy", PROXY_FORM)
    if urlsplit(base_url).scheme == "http" and not is_loopback(str(url.hostname)):
        raise unusable("proxy", "must be on this machine where base_url is http, since it would see the tokens")


def is_proxy(url: SplitResult) -> bool:
    """Return whether an address names a proxy, with a user and a password that requests can send, or with neither."""
    # requests sends Latin-1; anything else is a ValueError here, as a port that is no number is
    unquote(f"{url.username}{url.password}").encode("latin-1")
    has_host = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and url.path in ("", "/")
    return has_host and bool(url.username) == (url.password is not None)


def check_ca_bundle(path: str) -> None:
    """Raise unless a file has certificates in PEM form, or a folder has them by hash."""
    if os.path.isdir(path):
        check_folder(path)
        return
    check_readable("ca_bundle", path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise unusable("ca_bundle", f"({path!r}) has no certificates in PEM form") from None


def check_folder(path: str) -> None:
    """Raise unless a folder has certificates under the names by which OpenSSL finds them."""
    try:
        names = [file.name for file in Path(path).iterdir()]
    except OSError as error:
        raise unreadable("ca_bundle", path, error) from None
    if not any(map(HASHED_NAME.fullmatch, names)):
        raise unusable("ca_bundle", f"({path!r}) has no certificates by hash, as openssl rehash names them")


def check_client_cert(certificate: str, key: str) -> None:
    """Raise unless the files have a certificate in PEM form and its key, without a passphrase."""
    check_readable("client_cert", certificate)
    if key:
        check_readable("client_key", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        # without a function, OpenSSL would ask for the passphrase at the terminal
        context.load_cert_chain(certificate, key or None, password=refuse_passphrase)
    except ssl.SSLError:
        files = f"({certificate!r}) and client_key ({key!r}) do" if key else f"({certificate!r}) does"
        raise unusable("client_cert", f"{files} not hold a certificate in PEM form and its private key") from None


def refuse_passphrase() -> str:
    """Raise; OpenSSL calls this for an encrypted key."""
    raise unusable("client_cert", "has a key with a passphrase, for which there is no setting")


def check_readable(key: str, path: str) -> None:
    """Raise if a file cannot be read."""
    try:
        Path(path).open("rb").close()
    except (OSError, ValueError) as error:
        raise unreadable(key, path, error) from None


def unreadable(key: str, path: str, error: OSError | ValueError) -> SettingsError:
    """Return the error of a setting whose file cannot be read; it names the file and the reason."""
    reason = str((isinstance(error, OSError) and error.strerror) or error).lower()
    return unusable(key, f"({path!r}) cannot be read: {reason}")
