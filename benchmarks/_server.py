"""A server that costs almost nothing: it answers every GET with prepared bytes and keeps connections alive.

Lists of trades have 10,000 pages of 100; below `/slow` each takes 5 ms. It prints its port, and ends when its standard
input does.
"""

import json
import os
import re
import socket
import sys
import threading
import time

AGENT = {
    "id": "agt_1cee9c02f91dee7667e2b87f",
    "name": "base-momentum",
    "status": "active",
    "chain_id": 8453,
    "wallet_id": "wal_71704cf1f5793e5fd6af6897",
    "risk": {"position_size_pct": 5.0, "stop_loss_pct": 3.0, "trailing_stop_pct": 2.0, "take_profit_pct": 10.0},
    "min_confidence": 0.75,
    "max_positions": 5,
    "stats": {"total_trades": 40, "win_rate_pct": 52.5, "total_pnl_usd": 167.34},
    "created_at": 1_760_000_000,
    "updated_at": 1_760_100_000,
}
"""For ours and the bare HTTP library. The peers get objects of about the same size in their own shape."""

MODEL = {"id": "m", "object": "model", "created": 1_760_000_000, "owned_by": "o" * 300}
CUSTOMER = {
    "id": "cus_1",
    "object": "customer",
    "name": "base-momentum",
    "email": "me@example.com",
    "created": 1_760_000_000,
    "livemode": False,
    "metadata": {"position_size_pct": "5", "stop_loss_pct": "3", "trailing_stop_pct": "2", "take_profit_pct": "10"},
    "description": "d" * 120,
}
ASSET = {
    "id": "b0b6dd9d-8b9b-48a9-ba46-b9d54906e415",
    "class": "us_equity",
    "exchange": "NASDAQ",
    "symbol": "AAPL",
    "name": "n" * 150,
    "status": "active",
    "tradable": True,
    "marginable": True,
    "shortable": True,
    "easy_to_borrow": True,
    "fractionable": True,
}
PAGES = 10_000


def trade(number: int) -> dict[str, object]:
    closed = number % 20 != 0
    return {
        "id": f"trd_PAGENO{number:018x}",
        "agent_id": f"agt_{number % 6:024x}",
        "token_address": f"0x{number:040x}",
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "BUY",
        "entry_price_usd": 0.0872847,
        "exit_price_usd": 0.0912 if closed else None,
        "pnl_usd": 12.5 if closed else None,
        "roi_pct": 4.49 if closed else None,
        "status": "closed" if closed else "open",
        "opened_at": 1_760_000_000 + number,
        "closed_at": 1_760_003_600 + number if closed else None,
    }


def answer(body: object) -> bytes:
    content = json.dumps(body, separators=(",", ":")).encode()
    head = (
        "HTTP/1.1 200 OK\r\n"
        f"date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(content)}\r\n"
        "x-ratelimit-limit: 1000000\r\n"
        "x-ratelimit-remaining: 999999\r\n"
        f"x-ratelimit-reset: {int(time.time()) // 60 * 60 + 60}\r\n\r\n"  # the limits are per minute
    )
    return head.encode() + content


ANSWERS = {b"/v1/agents": answer(AGENT), b"/v1/models": answer(MODEL), b"/v1/custom": answer(CUSTOMER)}
OTHERWISE = answer(ASSET)
TRADES = answer({"data": [trade(number) for number in range(100)], "next_cursor": "CURSOR"})
LAST = answer({"data": [trade(number) for number in range(100)], "next_cursor": None})
CURSOR = re.compile(rb"cursor=([0-9]{6})")


def page(request: bytes) -> bytes:
    cursor = CURSOR.search(request)
    number = int(cursor[1]) if cursor else 1
    body = TRADES.replace(b"CURSOR", b"%06d" % (number + 1)) if number < PAGES else LAST
    return body.replace(b"PAGENO", b"%06d" % number)


def serve(connection: socket.socket) -> None:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
        if received.endswith(b"\r\n\r\n"):
            slow = received.startswith(b"GET /slow/")
            if slow:
                time.sleep(0.005)
            if received[4 + 5 * slow :].startswith(b"/v1/trades"):
                connection.sendall(page(received))
            else:
                connection.sendall(ANSWERS.get(received[4:14], OTHERWISE))
            received = b""


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
