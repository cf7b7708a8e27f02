"""The topics of `trade help TOPIC`: texts, and tables that programs can read."""

from __future__ import annotations

from dataclasses import dataclass

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
    (errors.SERVER, "server", "the service failed, or answered something strange"),
    (errors.NETWORK, "network", "no connection, or no answer in time"),
    (errors.REFUSED, "refused", "not paid: a budget or a guard of yours said no; nothing was signed"),
    (errors.REJECTED, "rejected", "the service refused the payment"),
    (errors.OUTCOME_UNKNOWN, "outcome unknown", "it may have been paid: the same command goes on with that payment"),
    (errors.STREAM_ENDED, "stream ended", "the service ended the stream for good"),
    (errors.INTERRUPTED, "interrupted", "Ctrl-C"),
    (errors.TERMINATED, "terminated", "SIGTERM"),
)

ENVIRONMENT: tuple[tuple[str, str], ...] = (
    ("TRADE_API_KEY", "the API key; instead of one that trade login keeps"),
    ("TRADE_BASE_URL", "the service, such as https://api.example.com; as --base-url"),
    ("TRADE_MARKET_BASE_URL", "where market data is bought, if elsewhere; as --market-url"),
    ("TRADE_PROFILE", "the profile whose settings count; as --profile"),
    ("TRADE_MOCK", "1: the embedded mock is the service; 0: it is not; as --mock"),
    ("TRADE_WALLET_KEY", "the private key that pays and that wallets connect signs with: 64 hexadecimal digits"),
    ("TRADE_KEYSTORE", "the encrypted keystore that pays; as --wallet"),
    ("TRADE_KEYSTORE_PASSWORD_FILE", "a file with its password, which only you can read"),
    ("TRADE_PURCHASE_SECRET", "64 hexadecimal digits that names of purchases become nonces with; else from the key"),
    ("TRADE_BUDGET_PER_CALL", "the most that one call may cost, in dollars such as 0.10"),
    ("TRADE_BUDGET_PER_HOUR", "the most that may be spent in any 60 minutes"),
    ("TRADE_BUDGET_PER_DAY", "the most that may be spent in a day of UTC"),
    ("TRADE_BUDGET_TOTAL", "the most that may be spent at all"),
    (
        "TRADE_BUDGET_RELEASE",
        "service: what the service rejected is free once it has expired; proof: never by its word",
    ),
    (
        "TRADE_RPC_URL",
        "nodes of Base, with spaces between them: pay reconcile asks them what was paid; never shown whole",
    ),
    ("TRADE_MCP_TOKEN", "what clients of trade mcp --http must send; 16 or more characters"),
    ("TRADE_HOME", "one folder for settings, keys, ledger and mock worlds, instead of the usual ones"),
    ("NO_COLOR", "anything: no colors"),
    ("FORCE_COLOR", "anything: colors in pipes and files as well"),
    ("COLUMNS", "how wide tables may be, instead of what the terminal says"),
    ("TERM", "dumb: nothing is drawn over, and nothing is colored"),
    ("HTTPS_PROXY", "a proxy for requests; also HTTP_PROXY, ALL_PROXY, NO_PROXY"),
    ("SSL_CERT_FILE", "certificates to trust; also SSL_CERT_DIR"),
)

_EXIT_CODES = """
Scripts can tell by the exit code what went wrong.

The error itself is one line and a hint on standard error. With -o json, ndjson or in a pipe it is one JSON object:
code, status, message, hint, retryable. For errors about payments it also has charged and payment.

  trade agents get "$id" || case $? in 6) echo gone;; 9|10|11) echo later;; esac

As a table for programs: trade help exit-codes -o json
"""

_ENVIRONMENT = """
Options count more than the environment, and the environment more than files: trade help settings.

Keys are never options: whoever is on the same machine can see the words of a command line.

As a table for programs: trade help environment -o json
"""

_OUTPUT = """
Results go to standard output, everything else to standard error, so that trade … > file holds nothing but data.

On a terminal there are tables. In a pipe or a file a list is NDJSON, one object a line, and a single thing is JSON.
-o says it by hand: table, json, ndjson, csv, tsv, yaml or md. Tables are for people: numbers are rounded and times are
readable. All other formats have the service's own names and values.

  trade agents list -o csv --fields id,name,status
  trade trades list --all -o json --query "[?pnl_usd < `0`].id"
  trade signals history --chain base --since 24h --all --out day.csv

--fields takes names with commas between them, nested ones as risk.stop_loss_pct. --query is JMESPath, and works on what
-o json would print. --out writes into a file, whose ending says the format unless -o does (.json .ndjson .csv .tsv
.yaml .md, .txt for a table, .parquet for a list); it is replaced only when all is there. A stream appends to its file
instead.

A list shows the first 20. --limit N is another number, --all is everything, --cursor continues a list, and
--checkpoint FILE lets the same command go on after it was interrupted.

Ids, addresses and hashes are never cut in a pipe. Text from strangers is shown as text: it cannot move your cursor,
color your screen or become a formula in a spreadsheet.
"""

_PAYMENTS = """
trade market buys data, request by request, with USDC from a wallet of yours. Nothing is paid that nobody allowed.

Either --max-price says what this command may cost, or there is a budget (trade pay budget set --per-day 5, or
TRADE_BUDGET_PER_DAY=5). Without both you are asked on a terminal; elsewhere the command ends with 12 and nothing was
signed. --dry-run shows the price and what would be signed, and pays nothing.

  trade pay quote prices ETH BRETT
  trade market prices ETH BRETT --max-price 0.06
  trade --mock market prices ETH BRETT --max-price 0.06

The last of these pays with play money, and needs no wallet.

The wallet is TRADE_WALLET_KEY, or a keystore: --wallet FILE, TRADE_KEYSTORE, or the one that trade pay key new makes.
Its password is asked for when something is signed, and not before. The address that is paid first is remembered; when
the service asks for another one, nothing is signed until trade pay trust accepts it.

Every payment is in the ledger before it leaves this machine. When its outcome is not known, the exit code is 14. The
same command goes on with it: it resends the payment, or signs its nonce again, which is taken only once. trade pay
resume PAYMENT_ID resends it too, and trade pay reconcile goes through all that are in doubt.
"""

_SETTINGS = """
Each setting is looked for in this order, and the first place that has it counts:

  1  an option on the command line      --timeout 10
  2  the environment                    TRADE_BASE_URL=https://api.example.com
  3  .trade.toml of the project         in this folder or one above it
  4  a profile                          --profile NAME, TRADE_PROFILE
  5  what is built in

trade config list --sources shows every setting and where it came from, trade config path where the files are. Options
may stand before the noun and after the verb; the later one wins.

trade login asks for an API key, tries it, and keeps it with its profile: in the system's keyring, or in a file that
only you can read. A profile may also be a mock. A kept key is sent to the addresses of its profile only.

  trade login --profile work --base-url https://api.example.com
  trade --profile work agents list
  trade config use work

A project's .trade.toml can choose a profile, the mock, a world, and how things look. It cannot name addresses or keys:
a folder from a stranger must not be able to send your key elsewhere. For the same reason TRADE_API_KEY does not go to
the service of a profile that only a project named, unless the profile you always use is for that service too.

  profile = "work"
  output = "json"

With TRADE_HOME set, everything is in that folder. trade doctor checks all of this.
"""

_TIMES = """
Where a command takes a TIME, four forms fit:

  2026-01-01T12:00Z      a time with its zone: Z, or an offset such as +02:00
  2026-01-01             a date: its midnight in UTC
  1767225600             Unix seconds
  90m                    an age: so long ago; s, m, h or d

A time without a zone is refused, because it could mean two things. A SPAN, such as in --duration, is 30s, 10m, 2h
or 1d.

  trade signals history --chain base --since 24h
  trade signals history --chain base --since 2026-01-01 --until 2026-01-02

Tables show UTC, or how long ago something was; all other formats have the service's own numbers, mostly Unix seconds.
With --mock, the mock's clock counts where things happen: trade mock clock.
"""

_STREAMS = """
trade signals stream prints signals as they come, each once, until Ctrl-C. When the connection breaks it comes back, and
what was missed meanwhile is taken from the history.

  trade signals stream --chain base --min-confidence 0.8 --direction BUY
  trade signals stream --chain base --out buys.ndjson --since last
  trade signals stream --chain base --exec 'echo {direction} {token_symbol}'

--since 1h begins in the past. --since last continues where the last run with --since last ended, with the same key,
chain, filters and --out; the first time, where the last run without it ended. --count, --duration and --until-idle
say when to end.

--exec runs a command for each signal, without a shell: {id}, {direction}, {token_symbol}, {price_usd} and the other
fields stand for its values, and the signal is its input as JSON. --forward-to posts it to an address of yours, and
tries again when that fails. --tape FILE records; trade replay FILE --speed 10 plays it back, without a network.

In a pipe every signal is a line of JSON, with replayed when it came from the history and late when it is older than
what was printed before. The exit code is 15 when the service ended the stream for good, 130 after Ctrl-C.
"""

_OPTIONS = """
Every command takes these options, before the noun or after the verb. The later one wins.
"""

TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic("output", "Formats, fields, files, and how much of a list.", _OUTPUT),
        Topic("options", "Global options: output, service, debugging.", _OPTIONS, ("option", "meaning")),
        Topic("settings", "Which setting counts, profiles, files and keys.", _SETTINGS),
        Topic(
            "environment",
            "The variables that trade reads.",
            "These variables are read.\n" + _ENVIRONMENT,
            ("variable", "meaning"),
            ENVIRONMENT,
        ),
        Topic("payments", "What is paid, who allows it, and what to do in doubt.", _PAYMENTS),
        Topic("streams", "Live signals: begin, end, go on, act on them.", _STREAMS),
        Topic("times", "How moments, ages and spans are typed.", _TIMES),
        Topic(
            "exit-codes",
            "What each exit code means.",
            _EXIT_CODES,
            ("exit_code", "name", "meaning"),
            EXIT_CODES,
        ),
    )
}
"""All of them, in the order of the list."""
