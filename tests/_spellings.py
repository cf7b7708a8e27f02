"""Base URLs, as they are and as people write them."""

from __future__ import annotations

API = "https://api.example.com"

SAME: dict[str, list[str]] = {
    API: [
        *("HTTPS://API.Example.COM", f"{API}:443", f"{API}/", f"{API}.", f"{API}:/", f"{API}.:443/v1/"),
        *("https://api\u3002example.com", f"{API}/%76%31"),
    ],
    "https://xn--bcher-kva.example": [
        *(
            "https://bücher.example",
            "https://BÜCHER.Example.",
            "https://XN--Bcher-kva.example",
            "https://bücher.example:443",
        ),
    ],
    "http://localhost:8402": ["http://LOCALHOST:8402", "http://localhost.:8402/", "HTTP://LocalHost:08402"],
    "http://localhost": ["http://localhost:80", "http://LOCALHOST.:80/v1"],
    "http://127.0.0.1:8402": ["http://127.0.0.1.:8402", "http://127.0.0.1:8402/"],
    "http://[::1]:8402": ["http://[0:0:0:0:0:0:0:1]:8402", "http://[::0001]:8402/"],
    "https://[fd07::ab]": ["https://[FD07:0:0::AB]:443", "https://[fd07::00ab]/"],
    f"{API}/~me%2Fx": [f"{API}/%7Eme%2fx", f"{API}/%7e%6D%65%2Fx/v1"],
    f"{API}/Tr%C3%A4de": [f"{API}/Träde/", f"{API}/Tr%c3%a4d%65", "https://API.example.com:443/Tr%C3%A4de/v1"],
}
"""Each is written as the SDK writes it, and then in other ways."""

OTHER = [
    (API, f"{API}:8443"),
    (API, "https://api.example.org"),
    (API, "https://www.api.example.com"),
    (API, f"{API}/trade"),
    (f"{API}/trade", f"{API}/Trade"),
    (f"{API}/a%2Fb", f"{API}/a/b"),
    (f"{API}/%40me", f"{API}/@me"),
    (f"{API}:80", "https://api.example.com:443"),
    ("http://localhost:8402", "https://localhost:8402"),
    ("http://localhost:8402", "http://localhost:8403"),
    ("http://localhost:8402", "http://127.0.0.1:8402"),
    ("http://[::1]:8402", "http://[::1]:8403"),
    ("https://bücher.example", "https://bucher.example"),
]
"""Two services each."""

PAIRS = [(one, others[-1], True) for one, others in SAME.items()]  # that all become one, test_config says
PAIRS += [(one, other, False) for one, other in OTHER]
