"""`--debug` and `--curl`: the requests of the SDK's log on stderr. The SDK leaves secrets out."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tradesdk_cli.output.printer import Output
from tradesdk_cli.redact import without_made_keys
from tradesdk_cli.text import json_escaped, visible

_LOG = "tradesdk.wire"
"""The SDK's log of requests; those to a mock's control routes are in it in the same form."""
_LONGEST_BODY = 4 * 1024
_LONGEST_VALUE = 400
_HIDDEN = "****"
_NOT_FOR_CURL = ("host", "connection", "accept-encoding", "user-agent", "content-length")
_GLOBBED = frozenset("[]{}")


def log_control(event: str, method: str, url: str, content: bytes | None, kind: str, **more: Any) -> None:
    """Logs a request to a mock's control routes or its answer, if the log is enabled.

    `kind` is its media type; only JSON is shown.
    """
    logger = logging.getLogger(_LOG)
    if logger.level:
        text = None if content is None or kind != "application/json" else content.decode("utf-8", "replace")
        shown = {"headers": {"content-type": kind}, "body": text and without_made_keys(text)}
        wire = {"event": event, "method": method, "url": url, **shown, "bytes": len(content or b""), **more}
        logger.debug("%s %s", method, url, extra={"wire": wire})


@contextmanager
def watching(out: Output) -> Iterator[None]:
    """Shows the requests and responses of the SDK, as the settings of `out` want."""
    from tradesdk_cli.retries import log_handler  # imports the SDK, which control routes do not need

    def say(line: str, style: str = "") -> None:
        print(out.paint(style, visible(line)) if style else visible(line), file=out.stderr, flush=True)

    def handle(record: logging.LogRecord) -> None:
        wire: Mapping[str, Any] = vars(record).get("wire", {})
        event = wire.get("event")
        if event == "request" and out.settings.curl:
            line, left_out = curl_line(wire)
            if out.machine_notes:
                out.print_object({"type": "curl", "command": line, "left_out": left_out})
            else:
                say(line)
                if left_out:
                    out.note(f"left out of this line: {' and '.join(left_out)}")
        if event not in ("request", "answer", "failure") or not out.settings.debug:
            return
        if out.machine_notes:
            body = {"body": cut(wire["body"])} if isinstance(wire.get("body"), str) else {}
            fields = {name: value for name, value in wire.items() if name != "event"} | body
            out.print_object({"type": event, "note": headline(wire), **fields})
            return
        for style, line in lines(wire):
            say(line, style)

    if out.settings.curl and out.settings.mock:
        out.note("the embedded mock has no address; trade mock serve gives it one")
    # Alone: else each request would also be taken as the reason of the next wait.
    with log_handler(handle, log=_LOG, alone=True):
        yield


def headline(wire: Mapping[str, Any]) -> str:
    """One line: the request, its result, and the time it took."""
    where = f"{wire['method']} {wire['url']}"
    return where if wire["event"] == "request" else f"{where}: {_result(wire)}"


def _result(wire: Mapping[str, Any]) -> str:
    took = f"{wire['seconds'] * 1000:.0f} ms"
    return f"{wire['status']} in {took}" if wire["event"] == "answer" else f"{wire['problem']}, after {took}"


def lines(wire: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Lines for people, with styles: `>` sent, `<` received, `*` our notes."""
    if wire["event"] == "failure":
        yield "", f"* {headline(wire)}"
        return
    sent = wire["event"] == "request"
    mark = ">" if sent else "<"
    path = "/" + wire["url"].partition("://")[2].partition("/")[2]
    first = headline(wire) if sent else f"{_result(wire)}: {wire['method']} {path}"
    yield "", f"{mark} {first}"
    for name, value in wire["headers"].items():
        short = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}… ({len(value):,} characters)"
        yield "dim", f"{mark} {name}: {short}"
    if wire["body"]:
        yield "dim", mark
        for line in cut(wire["body"]).splitlines():
            yield "", f"{mark} {line}"
    elif wire["bytes"]:
        yield "dim", f"* {wire['bytes']:,} bytes, not shown here"
    elif not sent and wire["body"] is None:
        yield "dim", "* a stream; its events are not shown here"


def cut(body: str) -> str:
    """At most 4 KiB of a body, and the number of bytes left out."""
    content = body.encode("utf-8", "replace")
    if len(content) <= _LONGEST_BODY:
        return body
    shown = content[:_LONGEST_BODY].decode("utf-8", "ignore")
    return f"{shown}… ({len(content) - len(shown.encode()):,} more bytes)"


def curl_line(wire: Mapping[str, Any]) -> tuple[str, list[str]]:
    """A request as a curl command, and the parts left out of it. The API key is `$TRADE_API_KEY`."""
    method, url, body = wire["method"], wire["url"], wire["body"]
    left_out = []
    words = ["curl"]
    streams = "text/event-stream" in wire["headers"].get("accept", "")
    words += ["-N"] * streams
    words += ["-g"] * (not _GLOBBED.isdisjoint(url))  # else curl expands brackets
    if method != ("GET" if body is None else "POST"):
        words += ["-X", _quoted(method)]
    words.append(_quoted(url))
    for name, value in wire["headers"].items():
        if name == "authorization":
            words += ["-H", '"Authorization: Bearer $TRADE_API_KEY"']
        elif name == "payment-signature":
            left_out.append("the payment: without it, the line asks for the price and pays nothing")
        elif value == _HIDDEN:
            left_out.append(f"the header {name}")
        elif name not in _NOT_FOR_CURL:
            words += ["-H", _quoted(f"{name}: {value}")]
    if body is not None:
        words += ["--data-raw", _quoted(body)]
    elif wire["bytes"]:
        words += ["--data-binary", "@FILE"]
        left_out.append("the file: replace FILE by its name")
    if _HIDDEN in url or (body is not None and _HIDDEN in body):
        left_out.append(f"a secret: replace {_HIDDEN} by it")
    return " ".join(words), left_out


def _quoted(text: str) -> str:
    """Quoted for a shell, on one line. Unprintable characters become JSON escapes, as bodies are JSON."""
    return shlex.quote("".join(map(json_escaped, text)))
