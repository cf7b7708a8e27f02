"""A stream of signals from bytes to events: the SDK's decoder, beside httpx-sse's and openai's.

httpx-sse reads text, and gets it decoded already; ours gives bytes, which is what the models read JSON from.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial

from _measure import Bar, finish, in_process, installed, measure, report
from httpx_sse._decoders import SSEDecoder as TheirDecoder
from httpx_sse._decoders import SSELineDecoder

from tradesdk._stream.sse import SSEDecoder

ROUNDS = 60
EVENTS = 1_200
READ = 64 * 1024
MIB = 1024 * 1024


def signal(number: int) -> bytes:
    fields = {
        "type": "signal",
        "id": f"sig_{number:024x}",
        "token_address": f"0x{number:040x}",
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "BUY",
        "confidence": 0.8731,
        "price_usd": 0.0872847,
        "timestamp": 1_760_000_000 + number,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def ours(chunks: Sequence[bytes]) -> list[bytes]:
    decoder = SSEDecoder()
    return [data for chunk in chunks for data in decoder.feed(chunk)]


def theirs(chunks: Sequence[str]) -> list[str]:
    """As `EventSource.iter_sse` does it."""
    lines, decoder = SSELineDecoder(), TheirDecoder()
    events = (decoder.decode(line.rstrip("\n")) for chunk in chunks for line in lines.decode(chunk))
    return [event.data for event in events if event is not None]


def in_chunks(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


def byte_by_byte(length: int) -> None:
    """As many lines of `length` as make a mebibyte, a byte at a time."""
    decoder, byte = SSEDecoder(), b"x"
    for _ in range(MIB // length):
        decoder.feed(b"data: ")
        for _ in range(length - 6):
            decoder.feed(byte)
        (data,) = decoder.feed(b"\n\n")
        assert len(data) == length - 6


payloads = [signal(number) for number in range(EVENTS)]
usual = [b"data: " + payload + b"\n\n" for payload in payloads]
named = [b"event: message\nid: %d\ndata: %b\n\n" % pair for pair in enumerate(payloads)]
windows = [b"data: " + payload + b"\r\n\r\n" for payload in payloads]
ways = {
    "300 events a chunk": [b"".join(usual[start : start + 300]) for start in range(0, EVENTS, 300)],
    "reads of 64 KiB": in_chunks(b"".join(usual), READ),
    "one event a chunk": usual,
    "with type and id, 64 KiB": in_chunks(b"".join(named), READ),
    "with type and id, one a chunk": named,
    "with CRLF, 64 KiB": in_chunks(b"".join(windows), READ),
}
most = {"300 events a chunk": 0.4, "reads of 64 KiB": 0.4, "one event a chunk": 0.75}

peers = ["httpx-sse", *(name for name in ("openai",) if installed(name))]
calls: dict[str, Callable[[], object]] = {}
bars: list[Bar] = []
for way, chunks in ways.items():
    texts = [chunk.decode() for chunk in chunks]
    assert ours(chunks) == payloads
    assert theirs(texts) == [payload.decode() for payload in payloads]
    calls[f"tradesdk, {way}"] = partial(ours, chunks)
    calls[f"httpx-sse, {way}"] = partial(theirs, texts)
    bars.append(Bar(f"tradesdk, {way}", f"httpx-sse, {way}", most.get(way, 1)))
if "openai" in peers:
    from openai._streaming import SSEDecoder as OpenAIDecoder

    def of_openai(chunks: Sequence[bytes]) -> list[str]:
        return [event.data for event in OpenAIDecoder().iter_bytes(iter(chunks))]

    for way in most:
        chunks = ways[way]
        assert [event.data.encode() for event in OpenAIDecoder().iter_bytes(iter(chunks))] == payloads
        calls[f"openai, {way}"] = partial(of_openai, chunks)

figures = measure({name: in_process(call, times=3) for name, call in calls.items()}, rounds=ROUNDS)
held = report(
    f"{EVENTS:,} signals of {len(payloads[0])} bytes, from bytes to events", figures, bars, unit="µs", peers=peers
)
LONG, SHORT = "tradesdk, byte by byte, a line of 1 MiB", "tradesdk, byte by byte, 64 lines of 16 KiB"
slow: dict[str, Callable[[], object]] = {LONG: lambda: byte_by_byte(MIB), SHORT: lambda: byte_by_byte(MIB // 64)}
figures = measure({name: in_process(call, times=1) for name, call in slow.items()}, rounds=9)
held &= report("The same number of bytes, one a chunk", figures, [Bar(LONG, SHORT, 1.5)], unit="ms", peers=peers)
finish(held)
