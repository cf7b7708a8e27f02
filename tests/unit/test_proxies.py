"""Which proxy applies to a URL."""

from __future__ import annotations

import pytest

from tradesdk import ConfigError
from tradesdk._http.proxies import proxy_for
from tradesdk._http.settings import Origin, check_base_url

from .._rows import each_of

HTTPS, HTTP = "https://api.example.com", "http://api.example.com"
ONE, TWO, SOCKS = "http://one.example:3128", "http://two.example:3128", "socks5h://socks.example:1080"


@each_of(
    ("url", "environ", "chosen"),
    [
        (HTTPS, {}, None),
        (HTTPS, {"HTTPS_PROXY": ONE}, ("HTTPS_PROXY", ONE)),
        (HTTPS, {"https_proxy": ONE, "HTTPS_PROXY": TWO}, ("https_proxy", ONE)),
        (HTTPS, {"https_proxy": "", "HTTPS_PROXY": TWO}, ("HTTPS_PROXY", TWO)),
        (HTTPS, {"https_proxy": " \r", "ALL_PROXY": TWO}, ("ALL_PROXY", TWO)),
        (HTTPS, {"HTTPS_PROXY": ONE, "ALL_PROXY": SOCKS}, ("HTTPS_PROXY", ONE)),
        (HTTPS, {"ALL_PROXY": SOCKS}, ("ALL_PROXY", SOCKS)),
        (HTTPS, {"all_proxy": ONE, "ALL_PROXY": SOCKS}, ("all_proxy", ONE)),
        (HTTPS, {"HTTP_PROXY": "socks5://a:1"}, None),
        (HTTPS, {"HTTP_PROXY": "nonsense://", "HTTPS_PROXY": ONE}, ("HTTPS_PROXY", ONE)),
        (HTTP, {"HTTP_PROXY": ONE, "HTTPS_PROXY": "nonsense://"}, ("HTTP_PROXY", ONE)),
        (HTTP, {"HTTP_PROXY": ONE, "REQUEST_METHOD": "GET"}, None),
        (HTTP, {"http_proxy": ONE, "REQUEST_METHOD": "GET"}, ("http_proxy", ONE)),
        (HTTPS, {"HTTPS_PROXY": ONE + "\r"}, ("HTTPS_PROXY", ONE)),
        (HTTPS, {"HTTPS_PROXY": "one.example:3128"}, ("HTTPS_PROXY", ONE)),
        (HTTPS, {"HTTPS_PROXY": "HTTP://one.example:3128/"}, ("HTTPS_PROXY", ONE)),
        (HTTPS, {"HTTPS_PROXY": "http://[fd07::1]:3128"}, ("HTTPS_PROXY", "http://[fd07::1]:3128")),
        (HTTPS, {"HTTPS_PROXY": "https://bücher.example"}, ("HTTPS_PROXY", "https://bücher.example")),
        (HTTPS, {"HTTPS_PROXY": "nonsense://", "NO_PROXY": "example.com"}, None),
        (HTTPS, {"HTTPS_PROXY": ONE, "no_proxy": "other.example", "NO_PROXY": "*"}, ("HTTPS_PROXY", ONE)),
    ],
)  # fmt: skip
def test_the_variable_that_applies(url: str, environ: dict[str, str], chosen: tuple[str, str] | None) -> None:
    found = proxy_for(Origin.of(url), environ)
    assert (None if found is None else (found.name, found.url)) == chosen
    assert found is None or found.auth is None


@each_of(
    ("userinfo", "auth"),
    [
        ("user:pa#ss", ("user", "pa#ss")),
        ("user:pa%23ss", ("user", "pa#ss")),
        ("user:pa/s?s@home", ("user", "pa/s?s@home")),
        ("user:a:b", ("user", "a:b")),
        ("user", ("user", "")),
        (":", ("", "")),
        ("üser:%zz", ("üser", "%zz")),
        ("DOMAIN\\user:pass word", ("DOMAIN\\user", "pass word")),
    ],
)
@each_of("scheme", ["http://", "//", ""])
def test_user_and_password(scheme: str, userinfo: str, auth: tuple[str, str]) -> None:
    found = proxy_for(Origin.of(HTTPS), {"HTTPS_PROXY": f"{scheme}{userinfo}@one.example:3128/"})
    assert found is not None
    assert (found.url, found.auth) == (ONE, auth)
    assert auth[1] == "" or auth[1] not in repr(found)


@each_of(
    "value",
    [
        "ftp://user:hunter2@one.example", "socks4://user:hunter2@one.example", "http://user:hunter2@", "http://",
        "http://user:hunter2@one.example:0", "http://user:hunter2@one.example:65536", "user:hunter2@one.example:x",
        "http://user:hunter2@fd07::1", "http://user:hunter2@[fd07::1", "http://user:hunter2@one example",
        "http://user:hunter2@one.example:31\n28", "'http://u:hunter2@one:1'",
    ],
)  # fmt: skip
@each_of("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_an_unusable_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        proxy_for(Origin.of(HTTPS), {name: value})
    assert str(caught.value).startswith(f"{name} cannot be used: ")
    assert "hunter2" not in f"{caught.value!r} {caught.value.hint}"


@each_of(
    ("no_proxy", "direct", "through"),
    [
        ("", "", "api.example.com 10.0.0.5 [fd07::1]"),
        ("*", "api.example.com 10.0.0.5 [fd07::1]", ""),
        ("other.example, *", "api.example.com", ""),
        ("example.com", "example.com api.example.com API.EXAMPLE.COM example.com:8443 api.example.com.",
         "badexample.com"),
        # A dot in front: with curl the name itself is meant, too; with Go only names below it.
        (".example.com", "example.com api.example.com", "badexample.com"),
        ("*.example.com", "api.example.com a.b.example.com", "example.com badexample.com"),
        ("Example.COM.", "api.example.com", "example.com.evil.example"),
        ("a,b example.com\tc", "example.com", "other.example"),
        ("example.com:8443", "example.com:8443 api.example.com:8443", "example.com"),
        ("example.com:443", "example.com", "example.com:8443"),
        ("example.com:https", "", "example.com"),
        ("10.0.0.5", "10.0.0.5 10.0.0.5:8443", "10.0.0.50 110.0.0.5"),
        ("10.0.0.5:8443", "10.0.0.5:8443", "10.0.0.5"),
        ("10.0.0.0/8", "10.0.0.5 10.255.0.1:8443", "11.0.0.1 [fd07::1]"),
        ("10.0.0.5/8", "10.1.1.1", "11.0.0.1"),
        ("10", "", "10.0.0.5"),
        ("fd07::/64", "[fd07::1] [fd07::ffff]:8443", "[fd08::1] 10.0.0.5 fd07.example"),
        ("[fd07::]/64", "[fd07::1]", "[fd08::1]"),
        ("fd07::1", "[fd07::1] [FD07:0:0::1] [fd07::1]:8443", "[fd07::2]"),
        ("[fd07::1]", "[fd07::1] [fd07::1]:8443", "[fd07::2]"),
        ("[fd07::1]:8443", "[fd07::1]:8443", "[fd07::1]"),
        ("::/0", "[fd07::1]", "10.0.0.5"),
        ("xn--bcher-kva.example", "bücher.example www.xn--bcher-kva.example", "bucher.example"),
        ("localhost,127.0.0.1,[::1],::1", "", "api.example.com 10.0.0.5 [fd07::1]"),
        ("10.0.0.0/99,fd07::/200,[,],[::1,::1],/,a/b,.,..,*.,*a,:,:1,[]:,ü" + "x" * 70 + ",\ud800", "",
         "api.example.com 10.0.0.5"),
    ],
)  # fmt: skip
def test_hosts_that_need_no_proxy(no_proxy: str, direct: str, through: str) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        chosen = {
            host: proxy_for(
                Origin.of(check_base_url(f"https://{host}", allow_insecure=False)), {"HTTPS_PROXY": ONE, name: no_proxy}
            )
            is None
            for host in [*direct.split(), *through.split()]
        }
        assert chosen == dict.fromkeys(direct.split(), True) | dict.fromkeys(through.split(), False)
