"""Coinbase as its package cdp-sdk sees it: one account, whose key signs what it is asked to sign.

It answers as Coinbase documents it (docs.cdp.coinbase.com, "EVM accounts" and "Authentication"): each request has a
token signed with the API key, those that sign or create another one, signed with the wallet secret over their content.
"""

# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import hashlib
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from eth_account import Account
from eth_account.messages import encode_defunct

ACCOUNTS = "/platform/v2/evm/accounts"
MOST = 50_000
"""What a payment may cost, in micro-dollars, by the policy of the account. It sees typed data only."""

Answer = tuple[int, dict[str, Any]]


class Coinbase:
    """A server on a free loopback port while the block lasts.

    Attributes:
        url: the base path for a `CdpClient`.
        credentials: the other arguments of a `CdpClient`.
        asked: what it was asked for, in order: method and path below that of accounts.
    """

    def __enter__(self) -> Self:
        self.asked: list[str] = []
        self._account = Account.create()
        self._is_created = False
        api_key, wallet_key = ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())
        self._api_key, self._wallet_key = api_key.public_key(), wallet_key.public_key()
        wallet_secret = wallet_key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.credentials = {
            "api_key_id": str(uuid.uuid4()),
            "api_key_secret": _base64(api_key.private_bytes_raw() + self._api_key.public_bytes_raw()),
            "wallet_secret": _base64(wallet_secret),
        }
        coinbase = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                status, answer = coinbase._answer(self, content)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/platform"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, content: bytes) -> Answer:
        try:
            self._authorize(request, content)
        except (jwt.PyJWTError, ValueError) as error:
            return _refused(401, "unauthorized", str(error))
        asked = json.loads(content) if content else {}
        path = request.path.removeprefix(ACCOUNTS).replace(self._account.address, "ADDRESS")
        self.asked.append(f"{request.command} {path}")
        match self.asked[-1]:
            case "GET /by-name/market-data" if not self._is_created:
                return _refused(404, "not_found", "EVM account with the given name not found.")
            case "GET /by-name/market-data":
                return 200, {"address": self._account.address, "name": "market-data"}
            case "POST ":
                self._is_created = True
                return 201, {"address": self._account.address, "name": asked["name"]}
            case "POST /ADDRESS/sign":
                return _signed(self._account.unsafe_sign_hash(bytes.fromhex(asked["hash"].removeprefix("0x"))))
            case "POST /ADDRESS/sign/message":
                return _signed(self._account.sign_message(encode_defunct(text=asked["message"])))
            case "POST /ADDRESS/sign/typed-data" if asked["message"]["value"] <= MOST:
                return _signed(self._account.sign_typed_data(full_message=asked))
            case "POST /ADDRESS/sign/typed-data":
                return _refused(403, "policy_violation", "The request was rejected by a policy.")
            case unknown:
                return _refused(404, "not_found", f"no {unknown}")

    def _authorize(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        where = f"{request.command} {request.headers['host']}{request.path}"
        claims = jwt.decode(
            request.headers["authorization"].removeprefix("Bearer "),
            self._api_key,
            algorithms=["EdDSA"],
            issuer="cdp",
            options={"require": ["sub", "nbf", "exp"]},
        )
        if (claims["sub"], claims["uris"]) != (self.credentials["api_key_id"], [where]):
            raise ValueError(f"the token is not for {where}")
        if request.command == "GET":
            return
        claims = jwt.decode(
            request.headers["x-wallet-auth"],
            self._wallet_key,
            algorithms=["ES256"],
            options={"require": ["iat", "nbf", "jti"]},
        )
        written = json.dumps(json.loads(content), separators=(",", ":"), sort_keys=True)
        if (claims["uris"], claims["reqHash"]) != ([where], hashlib.sha256(written.encode()).hexdigest()):
            raise ValueError(f"the wallet's token is not for this content of {where}")


def _signed(signed: Any) -> Answer:
    return 200, {"signature": "0x" + bytes(signed.signature).hex()}


def _refused(status: int, kind: str, message: str) -> Answer:
    return status, {"errorType": kind, "errorMessage": message, "correlationId": "0" * 16}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
