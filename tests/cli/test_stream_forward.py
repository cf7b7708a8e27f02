"""`--forward-to`: what is sent, when it is sent again, and what is never printed."""

from __future__ import annotations

import base64
import socket
import ssl
from typing import Any

import pytest
from tests._clock import VirtualClock

from tradesdk import RetryPolicy
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.stream.forward import Receiver

from .._rows import each_of
from ._streams import Hook, event


class Sender:
    """A receiver with a clock that waits in no time, and what it said."""

    def __init__(self, url: str, timeout: float = 60, **policy: Any) -> None:
        self.clock = VirtualClock()
        self.said: list[str] = []
        self.receiver = Receiver(
            url,
            policy=RetryPolicy(jitter=0, **policy),
            clock=self.clock,
            timeout=timeout,
            note=lambda problem, wait: self.said.append(problem),
        )

    def send(self, **fields: Any) -> str | None:
        return self.receiver.send(event(**fields))


def test_what_is_sent(hook: Hook) -> None:
    assert Sender(hook.url + "?a=1&b=%20").send(token_symbol="é\x1b") is None
    ((path, headers, body),) = hook.seen
    assert path == "/hook?a=1&b=%20"
    assert body == event(token_symbol="é\x1b")
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"] == body["id"]
    assert headers["user-agent"] == "trade"
    assert "authorization" not in headers


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_every_2xx_is_success(hook: Hook, status: int) -> None:
    hook.says(status)
    assert Sender(hook.url).send() is None
    assert len(hook.seen) == 1


def test_it_is_sent_again_with_the_same_key_until_it_is_taken(hook: Hook) -> None:
    hook.says(500, 429, 503, 0, 204)
    sender = Sender(hook.url)
    assert sender.send() is None
    assert {headers["idempotency-key"] for _, headers, _ in hook.seen} == {event()["id"]}
    assert hook.ids == [event()["id"]] * 5
    assert [round(wait) for wait in sender.clock.waits] == [2, 4, 8, 16]
    assert sender.said[:3] == ["the receiver answered 500", "the receiver answered 429", "the receiver answered 503"]
    assert len(sender.said) == 4


def test_it_gives_up_at_last(hook: Hook) -> None:
    hook.says(502)
    sender = Sender(hook.url)
    assert sender.send() == "the receiver answered 502, tried 6 times"
    assert len(hook.seen) == 6
    assert sum(sender.clock.waits) < 70


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 409, 410, 422])
def test_what_is_final(hook: Hook, status: int) -> None:
    hook.says(status, Location=hook.url)
    sender = Sender(hook.url)
    assert sender.send() == f"the receiver answered {status}"
    assert (len(hook.seen), sender.clock.waits) == (1, [])


def test_without_retries_once_only(hook: Hook) -> None:
    hook.says(503)
    assert Sender(hook.url, max_retries=0).send() == "the receiver answered 503"
    assert len(hook.seen) == 1


def test_the_receiver_says_how_long(hook: Hook) -> None:
    hook.says(429, 204, Retry_After="33")
    sender = Sender(hook.url)
    assert sender.send() is None
    assert [round(wait) for wait in sender.clock.waits] == [33]
    hook.says(503, Retry_After="4000")
    assert sender.send() == "the receiver answered 503 and wants 4000 s of rest"


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        sender = Sender(f"http://127.0.0.1:{taken.getsockname()[1]}/")
        assert sender.send() == "the receiver cannot be reached: Connection refused, tried 6 times"


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = Sender(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.05, max_retries=1)
        assert sender.send() == "the receiver did not answer in time, tried 2 times"


def test_a_host_that_does_not_exist_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    sender = Sender("https://receiver.invalid/")
    assert sender.send() == "the receiver cannot be reached: Name or service not known"
    assert sender.clock.waits == []


def test_a_certificate_that_is_wrong_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    sender = Sender("https://receiver.invalid/")
    said = sender.send()
    assert said is not None
    assert said.startswith("TLS: ")
    assert sender.clock.waits == []


def test_what_is_no_http(hook: Hook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def answer() -> None:
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    client.recv(65536)
                    client.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        sender = Sender(f"http://127.0.0.1:{server.getsockname()[1]}/", max_retries=1)
        assert sender.send() == "the receiver's answer is not HTTP (BadStatusLine), tried 2 times"
        thread.join()


def test_an_answer_is_not_read_beyond_its_head() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100)
                client.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        assert Sender(f"http://127.0.0.1:{server.getsockname()[1]}/").send() is None
        thread.join()


@pytest.mark.parametrize("number", ["plain-1", "é\r\nX-Evil: 1", "x" * 1000, '"quoted", %41', "\ud800", ""])
def test_an_id_of_any_kind_is_a_header(hook: Hook, number: str) -> None:
    assert Sender(hook.url).send(id=number) is None
    ((_, headers, body),) = hook.seen
    assert body["id"] == number
    assert "x-evil" not in headers
    assert headers["idempotency-key"].isprintable()
    assert len(headers["idempotency-key"]) <= 255


def test_no_proxy_stands_between_us_and_ourselves(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    assert Sender(hook.url).send() is None


def test_a_password_in_the_url_is_sent_and_never_shown(hook: Hook) -> None:
    sender = Sender(hook.url.replace("http://", "http://me:p%40ss@") + "?token=verysecret")
    hook.says(404)
    assert sender.send() == "the receiver answered 404"
    ((path, headers, _),) = hook.seen
    assert path == "/hook?token=verysecret"
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"me:p@ss"
    assert sender.receiver.shown == hook.url.removesuffix("/hook") + "/…"


@each_of(
    ("url", "says"),
    [
        ("http://receiver.example.com/x?token=verysecret", "not https: signals would be sent to receiver.example.com"),
        ("http://user:verysecret@receiver.example.com/", "not https"),
        ("http://10.0.0.1/verysecret", "not https"),
        ("ftp://127.0.0.1/verysecret", "begins with https:// or http://"),
        ("file:///etc/verysecret", "begins with https:// or http://"),
        ("127.0.0.1:8000/verysecret", "begins with https:// or http://"),
        ("https://", "begins with https:// or http://"),
        ("https:///verysecret", "begins with https:// or http://"),
        ("https://h:99999/verysecret", "is not a URL"),
        ("https://[::1/verysecret", "is not a URL"),
        ("https://h/very secret", "a space or another character"),
        ("https://h/verysecret\r\nX: y", "a space or another character"),
        ("https://h/verysecreté", "a space or another character"),
        ("", "begins with"),
    ],
)
def test_a_url_that_will_not_do(url: str, says: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        Sender(url)
    assert says in refused.value.message
    assert "verysecret" not in refused.value.message + str(refused.value.hint)


@each_of(
    ("url", "shown"),
    [
        ("https://hooks.example.com/services/T0/B0/verysecret", "https://hooks.example.com/…"),
        ("https://hooks.example.com", "https://hooks.example.com"),
        ("https://hooks.example.com/", "https://hooks.example.com"),
        ("https://u:verysecret@hooks.example.com:8443/?verysecret", "https://hooks.example.com:8443/…"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("http://localhost:80/#verysecret", "http://localhost:80"),
    ],
)
def test_only_the_origin_is_shown(url: str, shown: str) -> None:
    assert Sender(url).receiver.shown == shown
