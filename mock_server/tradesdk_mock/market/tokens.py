"""The tokens of both chains: names and prices from a table, addresses from the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..core.seeding import SeededRandom, address

NATIVE_USD = {8453: 3_150.0, 56: 640.0}
NETWORKS = {8453: "base", 56: "bsc"}
COUNTS = {8453: 620, 56: 20}
# Wrapped ether has the same address on every Base network.
ETHER = ("ETH", "Ethereum", "ethereum", NATIVE_USD[8453])
ETHER_ADDRESS = "0x4200000000000000000000000000000000000006"
_LOGOS = "https://assets.example.test/tokens"

# (symbol, name, coin id, price in USD) of well-known tokens.
LIVELY: dict[int, tuple[tuple[str, str, str, float], ...]] = {
    8453: (
        ("AERO", "Aerodrome Finance", "aerodrome-finance", 1.12),
        ("BRETT", "Brett", "based-brett", 0.087),
        ("DEGEN", "Degen", "degen-base", 0.0064),
        ("TOSHI", "Toshi", "toshi", 0.00031),
        ("VIRTUAL", "Virtuals Protocol", "virtual-protocol", 1.74),
        ("MORPHO", "Morpho", "morpho", 1.98),
        ("WELL", "Moonwell", "moonwell-artemis", 0.029),
        ("KEYCAT", "Keyboard Cat", "keyboard-cat-base", 0.0041),
        ("HIGHER", "higher", "higher", 0.0112),
        ("MOCHI", "Mochi", "mochi-thecatcoin", 0.0000094),
        ("SKI", "Ski Mask Dog", "ski-mask-dog", 0.071),
        ("PRIME", "Echelon Prime", "echelon-prime", 3.35),
        ("ZORA", "Zora", "zora", 0.052),
        ("CLANKER", "tokenbot", "tokenbot-2", 41.6),
        ("NORMIE", "Normie", "normie-base", 0.0078),
        ("SEAM", "Seamless Protocol", "seamless-protocol", 0.61),
        ("AIXBT", "aixbt", "aixbt", 0.094),
        ("KAITO", "Kaito", "kaito", 1.21),
        ("VVV", "Venice Token", "venice-token", 2.87),
        ("B3", "B3 Base", "b3", 0.0024),
        ("DOGINME", "doginme", "doginme", 0.00043),
        ("MIGGLES", "Mister Miggles", "mister-miggles", 0.021),
        ("TYBG", "Base God", "base-god", 0.0000062),
        ("BENJI", "Basenji", "basenji", 0.0118),
        ("ODOS", "Odos", "odos", 0.0052),
        ("EXTRA", "Extra Finance", "extra-finance", 0.031),
        ("SPEC", "Spectral", "spectral", 1.36),
        ("RSR", "Reserve Rights", "reserve-rights-token", 0.0069),
        ("AVNT", "Avantis", "avantis", 0.84),
        ("PONKE", "Ponke", "ponke", 0.116),
        ("FAI", "Freysa AI", "freysa-ai", 0.0137),
        ("COOKIE", "Cookie DAO", "cookie", 0.158),
        ("DRV", "Derive", "derive", 0.047),
        ("TOWNS", "Towns", "towns", 0.0183),
        ("SERV", "OpenServ", "openserv", 0.039),
        ("TALENT", "Talent Protocol", "talent-protocol", 0.0077),
        ("BALD", "Bald", "bald", 0.0013),
        ("CHOMP", "Chomp", "chomp-base", 0.0029),
        ("MFER", "mfercoin", "mfercoin", 0.0145),
        ("TOBY", "toby", "toby-toadgod", 0.000000064),
        ("BSWAP", "Baseswap", "baseswap", 0.0226),
        ("COMP", "Compound", "compound-governance-token", 46.3),
        ("SNX", "Synthetix", "havven", 0.72),
        ("BAL", "Balancer", "balancer", 1.27),
        ("UNI", "Uniswap", "uniswap", 8.15),
        ("LINK", "Chainlink", "chainlink", 17.9),
        ("ANON", "HeyAnon", "heyanon", 3.08),
        ("RATS", "Ratscoin", "rats-base", 0.00019),
        ("MOG", "Mog Coin", "mog-coin", 0.00000102),
        ("TIG", "The Innovation Game", "the-innovation-game", 0.93),
        ("OVN", "Overnight", "overnight", 0.27),
        ("AXL", "Axelar", "axelar", 0.34),
        ("FLOCK", "FLock", "flock-2", 0.143),
        ("IDRISS", "IDRISS", "idriss", 0.0088),
        ("BLUE", "Blue Whale", "blue-whale-base", 0.0034),
        ("BASED", "Based Token", "based-token", 0.0000171),
        ("PENDLE", "Pendle", "pendle", 4.46),
        ("RDNT", "Radiant Capital", "radiant-capital", 0.0236),
        ("AVAIL", "Avail", "avail", 0.0194),
        ("NOICE", "noice", "noice", 0.00058),
    ),
    56: (
        ("CAKE", "PancakeSwap", "pancakeswap-token", 2.41),
        ("TWT", "Trust Wallet", "trust-wallet-token", 1.08),
        ("XVS", "Venus", "venus", 6.9),
        ("BAKE", "BakerySwap", "bakerytoken", 0.19),
        ("ALPACA", "Alpaca Finance", "alpaca-finance", 0.117),
        ("FLOKI", "FLOKI", "floki", 0.000128),
        ("BABYDOGE", "Baby Doge Coin", "baby-doge-coin", 0.0000000017),
        ("LISTA", "Lista DAO", "lista", 0.43),
        ("SFP", "SafePal", "safepal", 0.52),
        ("DODO", "DODO", "dodo", 0.046),
        ("THE", "Thena", "thena", 0.38),
        ("MBOX", "Mobox", "mobox", 0.064),
        ("HOOK", "Hooked Protocol", "hooked-protocol", 0.112),
        ("ID", "SPACE ID", "space-id", 0.173),
        ("EDU", "Open Campus", "edu-coin", 0.141),
        ("BSW", "Biswap", "biswap", 0.037),
        ("CHEEMS", "Cheems", "cheems-token", 0.00000145),
        ("SIREN", "Siren", "siren-2", 0.098),
        ("BROCCOLI", "Broccoli", "czs-dog", 0.0271),
        ("FORM", "Four", "four", 2.06),
    ),
}

# 25 words each, with different first three letters, so that symbols made of these differ, too.
ADJECTIVES = (
    "Amber", "Brave", "Calm", "Dusty", "Eager", "Fuzzy", "Giant", "Happy", "Icy", "Jolly", "Keen", "Lucky", "Mellow",
    "Noble", "Odd", "Proud", "Quiet", "Rusty", "Shiny", "Tiny", "Urban", "Vivid", "Witty", "Young", "Zesty",
)  # fmt: skip
NOUNS = (
    "Ape", "Badger", "Cat", "Dog", "Eel", "Frog", "Goose", "Hamster", "Ibis", "Jackal", "Koala", "Llama", "Moose",
    "Newt", "Otter", "Panda", "Quail", "Rabbit", "Seal", "Tiger", "Urchin", "Vole", "Wolf", "Yak", "Zebra",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        address: on the chain, with its checksum.
        price_usd: the price around which it moves; see `price_model`.
        coin_id: its id in a public registry of coins.
        pool_address: address of its liquidity pool.
        logo: URL of a picture.
        market_cap: in USD.
        market_cap_rank: among all coins, not only these; 1 is the largest. Unique on a chain.
    """

    chain_id: int
    symbol: str
    address: str
    price_usd: float
    name: str
    coin_id: str
    pool_address: str
    logo: str
    market_cap: float
    market_cap_rank: int


@lru_cache(maxsize=8)
def tokens(seed: int, chain_id: int) -> tuple[Token, ...]:
    """All tokens of a chain, the lively ones first; on Base then wrapped ether, then many cheap ones."""
    live = lively(seed, chain_id)
    return live + tuple(_made(seed, chain_id, len(live), COUNTS[chain_id]))


@lru_cache(maxsize=8)
def lively(seed: int, chain_id: int) -> tuple[Token, ...]:
    """The tokens with signals and trades: 60 on Base, all 20 on BNB."""
    return tuple(_made(seed, chain_id, 0, len(LIVELY[chain_id])))


def find(seed: int, chain_id: int, identifier: str) -> Token | None:
    """The token with this address, coin id or symbol, in upper or lower case; None when there is none."""
    return _names(seed, chain_id).get(identifier.lower())


@lru_cache(maxsize=8)
def _names(seed: int, chain_id: int) -> dict[str, Token]:
    return {
        name.lower(): token for token in tokens(seed, chain_id) for name in (token.symbol, token.coin_id, token.address)
    }


def _made(seed: int, chain_id: int, start: int, stop: int) -> Iterator[Token]:
    """The tokens at some indices of a chain's list."""
    for index in range(start, stop):
        symbol, name, coin_id, price = _row(seed, chain_id, index)
        rng = SeededRandom(seed, "market cap", chain_id, symbol, draws=2)
        rank = 40 + 5 * index + rng.below(5)
        cap = 4.5e11 * rank**-1.45
        if symbol == "ETH":
            rank, cap = 2, 3.8e11
        yield Token(
            chain_id,
            symbol,
            ETHER_ADDRESS if symbol == "ETH" else address(seed, "token", chain_id, symbol),
            price,
            name,
            coin_id,
            address(seed, "pool", chain_id, symbol),
            f"{_LOGOS}/{coin_id}.png",
            float(round(cap, -3)),
            rank,
        )


def _row(seed: int, chain_id: int, index: int) -> tuple[str, str, str, float]:
    """(symbol, name, coin id, price) of the token at a place of a chain's list."""
    known = LIVELY[chain_id]
    if index < len(known):
        return known[index]
    if index == len(known):
        return ETHER
    index -= len(known) + 1
    # Each pair of words occurs once.
    first = ADJECTIVES[index % len(ADJECTIVES)]
    second = NOUNS[(index + index // len(ADJECTIVES)) % len(NOUNS)]
    symbol = (first[:3] + second[:3]).upper()
    price = 10 ** SeededRandom(seed, "price", chain_id, symbol, draws=1).between(-8, -1)
    return symbol, f"{first} {second}", f"{first}-{second}".lower(), float(f"{price:.3g}")
