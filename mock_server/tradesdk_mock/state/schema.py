"""The tables. Every id column is unique. `seq` is the order of insertion and breaks ties between equal times."""

from __future__ import annotations

import re

VERSION = 9

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (
    tenant TEXT NOT NULL, kind TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (tenant, kind)
) WITHOUT ROWID;
CREATE TABLE tenants (
    name TEXT PRIMARY KEY, id TEXT NOT NULL, email TEXT NOT NULL, plan TEXT NOT NULL, next_plan TEXT,
    created_at INTEGER NOT NULL, reset_at INTEGER NOT NULL, requests_used INTEGER NOT NULL DEFAULT 0,
    populated INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE keys (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, hash BLOB NOT NULL UNIQUE, last4 TEXT NOT NULL,
    name TEXT NOT NULL, scope TEXT NOT NULL, tenant TEXT NOT NULL,
    created_at INTEGER NOT NULL, revoked_at INTEGER, expires_at REAL
);
CREATE TABLE wallets (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, address TEXT NOT NULL,
    chain_id INTEGER NOT NULL, label TEXT NOT NULL, created_at INTEGER NOT NULL, native REAL NOT NULL,
    moved_at INTEGER NOT NULL, UNIQUE (tenant, address, chain_id)
);
CREATE INDEX wallets_page ON wallets (tenant, created_at, seq);
CREATE TABLE agents (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
    chain_id INTEGER NOT NULL, wallet_id TEXT NOT NULL, risk TEXT NOT NULL, min_confidence REAL NOT NULL,
    max_positions INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    since REAL NOT NULL DEFAULT 0
);
CREATE INDEX agents_page ON agents (tenant, created_at, seq);
CREATE INDEX agents_status ON agents (tenant, status, created_at, seq);
CREATE INDEX agents_running ON agents (seq) WHERE status IN ('active', 'paused');
CREATE TABLE trades (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, agent_id TEXT NOT NULL,
    token_address TEXT NOT NULL, token_symbol TEXT NOT NULL, chain_id INTEGER NOT NULL, direction TEXT NOT NULL,
    amount REAL NOT NULL, entry_price_usd REAL NOT NULL, exit_price_usd REAL, pnl_usd REAL, roi_pct REAL,
    status TEXT NOT NULL, opened_at INTEGER NOT NULL, closed_at INTEGER,
    entry_tx_hash TEXT NOT NULL, exit_tx_hash TEXT, wallet_id TEXT NOT NULL, signal_id TEXT, closed_by TEXT
);
CREATE INDEX trades_page ON trades (tenant, opened_at, seq);
CREATE INDEX trades_status ON trades (tenant, status, opened_at, seq);
CREATE INDEX trades_agent ON trades (tenant, agent_id, opened_at, seq);
CREATE INDEX trades_agent_status ON trades (tenant, agent_id, status, opened_at, seq);
CREATE INDEX trades_token ON trades (chain_id, token_address, agent_id);
CREATE TABLE positions (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, trade_id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
    agent_id TEXT NOT NULL, wallet_id TEXT NOT NULL, token_address TEXT NOT NULL, token_symbol TEXT NOT NULL,
    chain_id INTEGER NOT NULL, amount REAL NOT NULL, entry_price_usd REAL NOT NULL, stop_loss_price REAL NOT NULL,
    take_profit_price REAL NOT NULL, trailing_pct REAL NOT NULL, peak REAL NOT NULL, peak_at INTEGER NOT NULL,
    exits_at INTEGER, exit_by TEXT, opened_at INTEGER NOT NULL
);
CREATE INDEX positions_page ON positions (tenant, opened_at, seq);
CREATE INDEX positions_agent ON positions (tenant, agent_id, opened_at, seq);
CREATE INDEX positions_wallet ON positions (wallet_id);
CREATE VIEW books AS SELECT
    chain_id, token_address, agent_id, count(closed_at) AS closed, count(nullif(pnl_usd > 0, 0)) AS won,
    total(round(pnl_usd * 100)) / 100 AS gain,
    total(iif(closed_at IS NULL, NULL, entry_price_usd * amount)) AS cost, total(amount) AS bought,
    total(entry_price_usd * amount) AS bought_usd, total(iif(closed_at IS NULL, NULL, amount)) AS sold,
    total(exit_price_usd * amount) AS sold_usd
    FROM trades GROUP BY chain_id, token_address, agent_id;
CREATE TABLE signals (
    seq INTEGER PRIMARY KEY, published_at REAL NOT NULL, id TEXT NOT NULL UNIQUE,
    token_address TEXT NOT NULL COLLATE NOCASE, token_symbol TEXT NOT NULL, chain_id INTEGER NOT NULL,
    direction TEXT NOT NULL, confidence REAL NOT NULL, price_usd REAL NOT NULL, timestamp INTEGER NOT NULL,
    reason TEXT NOT NULL, short_sma REAL, long_sma REAL, crossover INTEGER NOT NULL, green_candles INTEGER NOT NULL
);
CREATE INDEX signals_page ON signals (chain_id, timestamp, seq);
CREATE INDEX signals_token ON signals (chain_id, token_address, timestamp, seq);
CREATE TABLE scheduled (
    seq INTEGER PRIMARY KEY, published_at REAL NOT NULL, id TEXT NOT NULL UNIQUE,
    token_address TEXT NOT NULL, token_symbol TEXT NOT NULL, chain_id INTEGER NOT NULL,
    direction TEXT NOT NULL, confidence REAL NOT NULL, price_usd REAL NOT NULL, timestamp INTEGER NOT NULL,
    reason TEXT NOT NULL, short_sma REAL, long_sma REAL, crossover INTEGER NOT NULL, green_candles INTEGER NOT NULL
);
CREATE INDEX scheduled_next ON scheduled (published_at, seq);
CREATE TABLE faults (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, conditions TEXT NOT NULL,
    parameters TEXT NOT NULL, seen INTEGER NOT NULL DEFAULT 0, fired INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE payers (address TEXT PRIMARY KEY, balance INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE contracts (address TEXT PRIMARY KEY, owner TEXT) WITHOUT ROWID;
CREATE TABLE settlements (
    seq INTEGER PRIMARY KEY, payer TEXT NOT NULL, nonce TEXT NOT NULL, amount INTEGER NOT NULL, pay_to TEXT NOT NULL,
    method TEXT NOT NULL, path TEXT NOT NULL, fingerprint TEXT NOT NULL, tenant TEXT,
    at REAL NOT NULL, tx TEXT NOT NULL, header TEXT NOT NULL, pending INTEGER NOT NULL, delivered INTEGER NOT NULL,
    UNIQUE (payer, nonce)
);
CREATE INDEX settlements_request ON settlements (payer, fingerprint);
CREATE TABLE held (
    seq INTEGER PRIMARY KEY, payer TEXT NOT NULL, nonce TEXT NOT NULL, amount INTEGER NOT NULL, pay_to TEXT NOT NULL,
    method TEXT NOT NULL, path TEXT NOT NULL, fingerprint TEXT NOT NULL, tenant TEXT,
    at REAL NOT NULL, tx TEXT NOT NULL, header TEXT NOT NULL, UNIQUE (payer, nonce)
);
CREATE INDEX held_due ON held (at);
CREATE TABLE submissions (
    seq INTEGER PRIMARY KEY, at REAL NOT NULL, path TEXT NOT NULL, fingerprint TEXT NOT NULL,
    payer TEXT, nonce TEXT, header TEXT NOT NULL, verdict TEXT NOT NULL, status INTEGER NOT NULL
);
CREATE INDEX submissions_nonce ON submissions (payer, nonce);
CREATE TABLE responses (
    id TEXT PRIMARY KEY, payment TEXT NOT NULL, fingerprint TEXT NOT NULL, receipt BLOB NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
"""

NAMES = re.findall(r"CREATE TABLE (\w+)", TABLES)
