"""Injects random faults into the service's responses, and counts them by kind."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from faulty_proxy import Fault, FaultyProxy, cut, cut_chunk, cut_without_length, hang_up, reset


def refuse(head: bytes, _: FaultyProxy) -> Iterator[bytes]:
    """A response with a status and an empty body."""
    yield b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % head


def answer_html(_: FaultyProxy) -> Iterator[bytes]:
    """Yield a page of HTML under a status of 200, as gateways send it."""
    body = b"<html>Come back later</html>"
    yield b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


FAULTS: dict[str, Fault] = {
    "429 with Retry-After: 1": partial(refuse, b"429 Too Many Requests\r\nRetry-After: 1"),
    "500": partial(refuse, b"500 Internal Server Error"),
    "503": partial(refuse, b"503 Service Unavailable"),
    "200 that is not JSON": answer_html,
    "body shorter than its length": cut,
    "body cut, without a length": cut_without_length,
    "chunks without the last one": cut_chunk,
    "connection reset within the body": reset,
    "connection closed before the head": hang_up,
}
SHARES = (0.05, *[0.02] * (len(FAULTS) - 1))


@dataclass
class RandomFaults(FaultyProxy):
    """A proxy between a client and the service that injects random faults; `injected` counts them by kind."""

    rng: Random = field(default_factory=lambda: Random(5))
    injected: Counter[str] = field(default_factory=Counter)

    def next_fault(self) -> Fault | None:
        """Return the fault of the next response, if any."""
        with self.lock:
            [kind] = self.rng.choices([*FAULTS, ""], [*SHARES, 1 - sum(SHARES)])
            if kind:
                self.injected[kind] += 1
            return FAULTS.get(kind)
