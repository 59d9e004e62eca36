"""The emulator starts and stops without leaks."""

import gc
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import requests
from served import Client, Serve

from letters_source.emulator.http_server import serve_in_background
from programmable_emulator import Behavior, Emulator, Reply, When


def port_of(base_url: str) -> int:
    """The port in an address."""
    return cast("int", urlsplit(base_url).port)


def is_open(base_url: str) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(base_url))) == 0


def servers() -> list[str]:
    """The threads that serve an emulator."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("emulator-")]


def test_a_free_port_on_loopback_is_taken() -> None:
    """Port 0 gives an address with the version in its path, open inside the block only."""
    with Emulator(1, 1).serve() as base_url:
        assert base_url.startswith("http://127.0.0.1:")
        assert base_url.endswith("/api/v1")
        assert is_open(base_url)
    assert not is_open(base_url)


def test_no_thread_outlives_the_block() -> None:
    """Stopping joins the server's thread, even with a keep-alive connection open."""
    with requests.Session() as session:
        with Emulator(1, 1).serve() as base_url:
            assert len(servers()) == 1
            assert session.get(f"{base_url}/templates", timeout=10).status_code == 401
        assert servers() == []


def test_an_emulator_can_be_served_again() -> None:
    """Rows and log continue from where they were, and the port may be the same."""
    emulator = Emulator(1, 1)
    with emulator.serve() as first:
        requests.get(f"{first}/templates", timeout=10)
    with emulator.serve(port=port_of(first)) as second:
        requests.get(f"{second}/templates", timeout=10)
    assert first == second
    assert [hit.number for hit in emulator.hits] == [1, 2]


def test_two_emulators_are_two_services(serve: Serve) -> None:
    """Two emulators have different addresses, rows and logs."""
    one, other = serve(Emulator(contacts=1)), serve(Emulator(contacts=2))
    assert (one.data("contacts")["count"], other.data("contacts")["count"]) == (1, 2)
    assert one.base_url != other.base_url
    assert (len(one.emulator.hits), len(other.emulator.hits)) == (1, 1)


def test_a_taken_port_is_an_error() -> None:
    """Serving on a port in use raises what the operating system says."""
    with (
        Emulator(1, 1).serve() as base_url,
        pytest.raises(OSError, match="in use"),
        Emulator(1, 1).serve(port=port_of(base_url)),
    ):
        pass


def test_stopping_cancels_a_response_in_progress() -> None:
    """A request that waits for a minute does not hold up the end of the block."""
    emulator = Emulator(behavior=Behavior(latency_ms=60_000))
    arrived = threading.Event()
    emulator.before_answer = lambda _served, _number: arrived.set()
    with ThreadPoolExecutor(1) as pool:
        with emulator.serve() as base_url:
            waiting = pool.submit(requests.get, f"{base_url}/contacts", timeout=120)
            assert arrived.wait(10)
        assert isinstance(waiting.exception(), requests.ConnectionError)


def test_stopping_cuts_off_a_client_that_does_not_read() -> None:
    """A large response that no client reads does not hold up the end of the block."""
    emulator = Emulator()
    emulator.canned.always(When(), Reply(body=b"x" * 20_000_000))
    with socket.socket() as idler:
        with emulator.serve() as base_url:
            idler.connect(("127.0.0.1", port_of(base_url)))
            idler.sendall(b"GET /api/v1/contacts HTTP/1.1\r\nHost: x\r\n\r\n")
            assert idler.recv(15) == b"HTTP/1.1 200 OK"
        assert servers() == []


def test_clients_in_many_threads_are_all_answered(serve: Serve) -> None:
    """Eight threads together read every row once."""
    client = serve(Emulator(contacts=400))
    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda page: one_page(client, page), range(40)))
    assert sorted(pages) == sorted([str(10 * page + step) for step in range(1, 11)] for page in range(40))
    assert sorted(hit.number for hit in client.emulator.hits) == list(range(1, 41))


def one_page(client: Client, page: int) -> list[str]:
    """The ids of a page, read over a connection of its own."""
    response = requests.get(f"{client.base_url}/contacts?page={page}", headers=client.tokens(), timeout=10)
    return [row["id"] for row in response.json()["data"]["rows"]]


def test_an_application_that_does_not_load_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """If uvicorn cannot start, the caller gets an error instead of waiting."""
    nowhere: Any = "letters_source.nowhere:app"
    with pytest.raises(RuntimeError, match="could not start"), serve_in_background(nowhere, 0):
        pass
    assert "letters_source.nowhere" in caplog.text


def test_ctrl_c_ends_the_foreground(capfd: pytest.CaptureFixture[str]) -> None:
    """run_forever announces its address, answers, and returns at SIGINT without output."""
    emulator = Emulator(1, 1)
    announced = []
    with ThreadPoolExecutor(1) as pool:

        def announce(base_url: str) -> None:
            announced.append(base_url)
            pool.submit(ask_and_interrupt, base_url)

        emulator.run_forever(0, announce)
    assert [hit.path for hit in emulator.hits] == ["/api/v1/templates"]
    assert not is_open(announced[0])
    assert capfd.readouterr() == ("", "")


def ask_and_interrupt(base_url: str) -> None:
    """One request, then what the terminal does at Ctrl-C."""
    requests.get(f"{base_url}/templates", timeout=10)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_before_the_start_ends_the_foreground() -> None:
    """An interrupt that comes before requests are accepted is not lost."""
    announced = []
    emulator = Emulator(1, 1)

    def announce(base_url: str) -> None:
        announced.append(base_url)
        os.kill(os.getpid(), signal.SIGINT)

    emulator.run_forever(0, announce)
    assert len(announced) == 1


def test_a_client_that_has_only_just_connected_is_disconnected() -> None:
    """Stopping while connections are being accepted leaves none of them open."""
    for _ in range(20):
        with socket.socket() as caller:
            with Emulator(0, 0).serve() as base_url:
                caller.connect(("127.0.0.1", port_of(base_url)))
            with suppress(ConnectionResetError):
                assert caller.recv(1) == b""
    gc.collect()
