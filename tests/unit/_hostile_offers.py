"""Requirements that must not be paid: what is changed in a good one, and the code of the refusal."""

from typing import Any

from ._offers import DOMAIN, MISSING, PAY_TO, PAYER, USDC, changed

OTHER = "0x" + "Ab" * 20
"""An address that has nothing to do with anything."""


def _any(*values: Any) -> tuple[Any, ...]:
    return values


_BAD: dict[str, dict[str, list[Any]]] = {
    "unsupported_scheme": {"scheme": ["upto", "Exact", "exact ", "", None, MISSING, 1, []]},
    "unsupported_network": {
        "network": [
            "base",
            "base-sepolia",
            "eip155:1",
            "eip155:84532",
            "eip155:*",
            "eip155:8453 ",
            "EIP155:8453",
            "",
            None,
            8453,
        ]
    },
    "unsupported_asset": {
        "asset": [OTHER, "USDC", USDC[:-1], USDC + "0", USDC[2:], " " + USDC, "", None, MISSING, [USDC]],
    },
    "unsupported_domain": {
        "extra": [
            *(
                MISSING,
                None,
                {},
                [],
                "USD Coin",
                {"name": "USD Coin"},
                {"version": "2"},
                {"name": None, "version": None},
            ),
            *(changed(DOMAIN, {"name": name}) for name in ("USDC", "usd coin", "USD Coin ", "", ["USD Coin"], None)),
            *(changed(DOMAIN, {"version": version}) for version in ("1", "2 ", "", 2, ["2"], None)),
            *(changed(DOMAIN, {"verifyingContract": one}) for one in _any(OTHER, "", USDC[:-1], 1, [USDC], {})),
            *(changed(DOMAIN, {"chainId": one}) for one in _any(1, 84532, "0x2105", "eip155:8453", True, "", [8453])),
        ]
    },
    "unsupported_method": {
        "extra": [
            changed(DOMAIN, {"assetTransferMethod": method})
            for method in _any("permit2", "erc7710", "EIP3009", "", 1, ["eip3009"], {}, False)
        ]
    },
    "upfront_flow": {"extra": [DOMAIN | {"paymentFlow": "upfront"}]},
    "unsupported_flow": {
        "extra": [
            changed(DOMAIN, {"paymentFlow": flow}) for flow in _any("escrow", "UPFRONT", "", 0, {}, ["upfront"], False)
        ]
    },
    "bad_amount": {
        "amount": [
            *("-1", "+1", "-0", "1.0", "1.", ".5", "1e3", "1E3", "0x10", "6_0", "1,000", "", " 1", "1 ", "1\n", "six"),
            *("0", "000", "NaN", "Infinity", "null"),
            *("\u0663", "\u00b9"),  # digits, says Unicode
            *(str(2**256), str(2**256 + 1), "9" * 78, "9" * 5000, "0" * 79 + "1"),
            *("\uff10", "\uff16\uff10\uff10\uff10\uff10", "0x1", [], 1e300),
            *(None, MISSING, 60000, 60000.0, True, ["60000"], {"value": "60000"}),
        ],
        "maxAmountRequired": ["60001", "59999", "", "0x1", 59999, 60000.0, True, ["60000"], "9" * 79],
    },
    "foreign_resource": {
        "resource": [
            *("https://elsewhere.example/v1/token-prices", {"url": "https://elsewhere.example/v1/token-prices"}),
            *("http://127.0.0.1:8402/v1/token-signals", "https://127.0.0.1", "http://[", "http:///v1/token-prices"),
        ]
    },
    "over_price": {"amount": ["60001", "0060001", str(2**256 - 1), str(10**30), "1" * 77]},
    "bad_recipient": {
        "payTo": [
            *("", None, MISSING, 1, [PAY_TO], "0x", PAY_TO[:-1], PAY_TO + "0", PAY_TO[2:], "0X" + PAY_TO[2:]),
            *(PAY_TO + "\n", " " + PAY_TO, "0x" + "g" * 40, "0x" + "\u0663" * 40, "vitalik.eth"),
            *("0x" + "0" * 40, USDC, USDC.lower()),
        ]
    },
    "recipient_is_payer": {"payTo": [PAYER, PAYER.lower(), "0x" + PAYER[2:].upper()]},
    "bad_validity": {"maxTimeoutSeconds": [None, MISSING, "60", "", True, False, [60], {"seconds": 60}]},
    "short_validity": {"maxTimeoutSeconds": [9, 9.99, 0, 0.5, -1, -1e300, -(10**40)]},
}

HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({name: value}, code) for code, fields in _BAD.items() for name, values in fields.items() for value in values
]
