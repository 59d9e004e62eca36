"""Classifies requests without a complete response: the reason, whether to retry, which setting may help."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from socket import gaierror
from ssl import SSLCertVerificationError, SSLError
from typing import TypeVar
from urllib.parse import urlsplit

import requests
from requests.utils import should_bypass_proxies
from urllib3.exceptions import NewConnectionError, ProxyError, ReadTimeoutError

from letters_source.errors import verbatim
from letters_source.service.network import Network
from letters_source.service.responses import ADVICE, RETRIED, Again
from letters_source.wording import causes

E = TypeVar("E", bound=BaseException)

PROXY_AUTHENTICATION = 407
# how http.client words a CONNECT that was refused
TUNNEL_REFUSED = re.compile(r"Tunnel connection failed: (\d{3})")
# how OpenSSL names the alerts of TLS (RFC 8446, 6.2), and those that may be about a client certificate
ALERT = re.compile(r"^(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(\w+)")
CLIENT_ALERTS = ("certificate", "unknown ca", "access denied", "handshake failure")
# OpenSSL's codes (x509_vfy.h) of certificates not yet or no longer valid, of another host, or of an unknown issuer
OUT_OF_DATE, OTHER_HOST, UNKNOWN_ISSUER = (9, 10), (62, 64), (2, 18, 19, 20, 21)
# a handshake may have been cut short
TLS_TRIES = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, and the setting that has its address."""

    name: str
    setting: str


SERVICE = Peer("the service", "base_url")


def failed(error: Exception, base_url: str, network: Network) -> Again:
    """Return what went wrong with a request that had no complete response."""
    chain = chain_of(error)
    peer = Peer(f"the proxy {network.proxy_address}", "proxy") if first(ProxyError, chain) else SERVICE
    refusals = (TUNNEL_REFUSED.search(str(cause)) for cause in chain if peer is not SERVICE)
    if refusal := next(filter(None, refusals), None):
        return refused_by_proxy(int(refusal[1]), network)
    tls = first(SSLError, chain)
    if isinstance(error, requests.exceptions.SSLError) or (tls and peer is not SERVICE):
        return untrusted(tls, peer, network)
    has_no_connection = isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError)
    is_late = not has_no_connection and isinstance(error, requests.exceptions.Timeout | ReadTimeoutError)
    reason, advice = describe(error, peer), advice_on(error, base_url, network)
    return Again(reason, is_late=is_late, may_be_size=is_late, advice=advice)


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an error, its causes, and those that urllib3 keeps as arguments."""
    chain = list(causes(error))
    return [*chain, *(each for cause in chain for each in cause.args if isinstance(each, BaseException))]


def first(kind: type[E], chain: Iterable[BaseException]) -> E | None:
    """Return the first error of a kind."""
    return next((error for error in chain if isinstance(error, kind)), None)


def describe(error: Exception, peer: Peer = SERVICE) -> str:
    """Return what went wrong with a connection, without what the libraries quote: addresses and contents."""
    chain = chain_of(error)
    if first(gaierror, chain):
        return f"no connection to {peer.name}: its host name cannot be resolved"
    if isinstance(error, requests.exceptions.ConnectTimeout) or (peer is not SERVICE and first(TimeoutError, chain)):
        return f"no connection to {peer.name} in time"
    if isinstance(error, requests.exceptions.Timeout | ReadTimeoutError):
        return "no response in time"
    if first(NewConnectionError, chain) or isinstance(error, requests.exceptions.ProxyError):
        return f"no connection to {peer.name}{system_words(chain)}"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "the connection ended without a response"
    return "a certificate or key file is missing" if is_file_missing(error) else "a response cut short"


def is_file_missing(error: Exception) -> bool:
    """Return whether requests did not find a file of certificates or a key, for which it has no class of its own."""
    return type(error) is OSError and not error.errno


def system_words(chain: Iterable[BaseException]) -> str:
    """Return the operating system's reason, such as a refused connection."""
    found = first(OSError, (error for error in chain if isinstance(error, OSError) and error.errno))
    return f": {found.strerror.lower()}" if found and found.strerror else ""


def advice_on(error: Exception, base_url: str, network: Network) -> str:
    """Return which settings may help where there was no connection, or no response."""
    if network.proxy and isinstance(error, requests.exceptions.ConnectionError | requests.exceptions.Timeout):
        return "Check $proxy and base_url."
    if is_file_missing(error):
        return "Check $ca_bundle, client_cert and client_key."
    unused = isinstance(error, requests.exceptions.ConnectionError) and unused_proxy(base_url)
    return f"{ADVICE} {unused} of the environment is not used: set $proxy." if unused else ADVICE


def unused_proxy(base_url: str) -> str:
    """Return which variable of the environment names a proxy for this address; empty if none does."""
    scheme = urlsplit(base_url).scheme
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    found = next((name for name in names if os.environ.get(name)), "")
    return "" if found and should_bypass_proxies(base_url, no_proxy=None) else found


def refused_by_proxy(status: int, network: Network) -> Again:
    """Return the failure that a proxy's status means, in answer to CONNECT or, for 407, to any request."""
    proxy = f"the proxy {network.proxy_address}"
    if status == PROXY_AUTHENTICATION:
        wrong = "refused the user and password" if "@" in network.proxy else "asks for a user and password"
        return Again(f"{proxy} {wrong} ({status})", tries=1, advice="Set both in $proxy.")
    tries = None if status in RETRIED else 1
    advice = "Check $proxy, and whether it allows the host of base_url."
    return Again(f"{proxy} did not connect to the service ({status})", tries=tries, advice=advice)


def untrusted(error: SSLError | None, peer: Peer, network: Network) -> Again:
    """Return why there is no TLS; a bad certificate stays bad."""
    if isinstance(error, SSLCertVerificationError):
        reason = f"the certificate of {peer.name} cannot be trusted: {error.verify_message.rstrip('.')}"
        return Again(reason, tries=1, advice=certificate_advice(error.verify_code, peer, network))
    if error and (alert := ALERT.search(error.reason or "")):
        words = alert[1].replace("_", " ").lower()
        return Again(
            f"{peer.name} refused the TLS handshake: {words}", tries=1, advice=alert_advice(words, peer, network)
        )
    return Again(f"{peer.name} does not speak TLS", tries=TLS_TRIES, advice=f"Check ${peer.setting}.")


def alert_advice(words: str, peer: Peer, network: Network) -> str:
    """Return what helps against a handshake that the other side refused with such an alert."""
    if peer is not SERVICE or not any(about in words for about in CLIENT_ALERTS):
        return f"Check ${peer.setting}."
    if network.client_cert:
        return f"Check $client_cert ({verbatim(network.client_cert)})."
    return "If it asks for a client certificate, set $client_cert."


def certificate_advice(code: int, peer: Peer, network: Network) -> str:
    """Return what helps against a certificate that OpenSSL refuses with this code."""
    if code in OUT_OF_DATE:
        return f"It must be renewed; check this machine's clock, and ${peer.setting}."
    if code in OTHER_HOST:
        return f"Check the host in ${peer.setting}."
    if code in UNKNOWN_ISSUER and network.ca_bundle:
        return f"Add its issuer to $ca_bundle ({verbatim(network.ca_bundle)})."
    if code in UNKNOWN_ISSUER:
        return "If your company issues it, set $ca_bundle to your company's certificates."
    return f"Check ${'ca_bundle' if network.ca_bundle else peer.setting}."
