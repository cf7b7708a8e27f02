"""Many machines with one API key, one wallet and one stream, on Redis 6.2 or newer, or Valkey. Extra: `redis`."""
