"""The topics of `trade help TOPIC`: the texts of `help/`, and tables that programs can read."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from tradesdk_cli import errors


@dataclass(frozen=True)
class Topic:
    """One topic.

    Attributes:
        name: what is typed after `trade help`.
        summary: one line about it.
        text: paragraphs with empty lines between them; lines that begin with two spaces stay as they are.
        columns: the names of the table's columns; empty where there is no table.
        rows: the table; it stands after the first paragraph. That of `options` is read from the options themselves.
    """

    name: str
    summary: str
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[int | str, ...], ...] = ()

    def as_dicts(self) -> list[dict[str, int | str]]:
        """The table as programs have it."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


EXIT_CODES: tuple[tuple[int, str, str], ...] = (
    (0, "ok", "it worked"),
    (errors.OTHER, "other", "another error, or you answered no"),
    (errors.USAGE, "usage", "the command line is not right; nothing was sent"),
    (errors.CONFIG, "configuration", "a setting is missing or cannot be used"),
    (errors.UNAUTHENTICATED, "unauthenticated", "401: the key is not accepted"),
    (errors.FORBIDDEN, "forbidden", "403: the key or the plan does not allow it"),
    (errors.NOT_FOUND, "not found", "404: there is no such thing"),
    (errors.CONFLICT, "conflict", "409: its state does not allow it"),
    (errors.INVALID, "invalid", "400, 422 and other 4xx: the service does not accept the values"),
    (errors.RATE_LIMITED, "rate limited", "429: and waiting for it would take too long"),
    (errors.SERVER, "server", "the service failed, or its answer was invalid"),
    (errors.NETWORK, "network", "no connection, or no answer in time"),
    (errors.REFUSED, "refused", "not paid: a budget or a guard of yours refused it; nothing was signed"),
    (errors.REJECTED, "rejected", "the service refused the payment"),
    (errors.OUTCOME_UNKNOWN, "outcome unknown", "it may have been paid; the same command continues that payment"),
    (errors.STREAM_ENDED, "stream ended", "the service ended the stream for good"),
    (errors.HUNG_UP, "hung up", "SIGHUP: the terminal was closed"),
    (errors.INTERRUPTED, "interrupted", "Ctrl-C"),
    (errors.TERMINATED, "terminated", "SIGTERM"),
)

ENVIRONMENT: tuple[tuple[str, str], ...] = (
    ("TRADE_API_KEY", "the API key; instead of one that trade login keeps"),
    ("TRADE_BASE_URL", "the service, such as https://api.example.com; as --base-url"),
    ("TRADE_MARKET_BASE_URL", "where market data is bought, if elsewhere"),
    ("TRADE_PROFILE", "the profile whose settings count; as --profile"),
    ("TRADE_MOCK", "1: the embedded mock is the service; 0: it is not; as --mock"),
    ("TRADE_WALLET_KEY", "the private key that pays and that wallets connect signs with: 64 hexadecimal digits"),
    ("TRADE_KEYSTORE", "the encrypted keystore that pays; as --wallet"),
    ("TRADE_KEYSTORE_PASSWORD_FILE", "a file with its password, which only you can read"),
    (
        "TRADE_PURCHASE_SECRET",
        "64 hexadecimal digits that turn names of purchases into nonces; by default from the key",
    ),
    ("TRADE_BUDGET_PER_CALL", "the most that one call may cost, in dollars such as 0.10"),
    ("TRADE_BUDGET_PER_HOUR", "the most that may be spent in any 60 minutes"),
    ("TRADE_BUDGET_PER_DAY", "the most that may be spent in a day of UTC"),
    ("TRADE_BUDGET_TOTAL", "the most that may be spent at all"),
    (
        "TRADE_BUDGET_RELEASE",
        "service: a rejected payment is released once it has expired; proof (default): only with a proof",
    ),
    (
        "TRADE_RPC_URL",
        "nodes of Base, with spaces between them: pay reconcile asks them what was paid; never shown whole",
    ),
    ("TRADE_FLEET", "the PostgreSQL database that the programs of a fleet share"),
    ("TRADE_MAX_RETRIES", "how often a call is sent again, 0 to 5; 0: every request is sent once"),
    ("TRADE_HOME", "one folder for settings, keys, ledger and mock worlds, instead of the platform's"),
    ("NO_COLOR", "set to anything: no colors"),
    ("FORCE_COLOR", "set to anything: colors in pipes and files as well"),
    ("COLUMNS", "how wide tables may be, instead of what the terminal says"),
    ("TERM", "dumb: no colors and no progress line"),
    ("HTTPS_PROXY", "a proxy for requests; also HTTP_PROXY, ALL_PROXY, NO_PROXY"),
    ("SSL_CERT_FILE", "certificates to trust; also SSL_CERT_DIR"),
)


def _read(name: str, columns: tuple[str, ...] = (), rows: tuple[tuple[int | str, ...], ...] = ()) -> Topic:
    """The topic in the file of its name: one line about it, an empty line, the text."""
    content = files("tradesdk_cli").joinpath("help", f"{name}.txt").read_text(encoding="utf-8")
    summary, _, text = content.partition("\n\n")
    return Topic(name, summary, text, columns, rows)


TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        _read("output"),
        _read("options", ("option", "meaning")),
        _read("settings"),
        _read("environment", ("variable", "meaning"), ENVIRONMENT),
        _read("payments"),
        _read("streams"),
        _read("times"),
        _read("exit-codes", ("exit_code", "name", "meaning"), EXIT_CODES),
    )
}
"""All of them, in the order of the list."""
