-- True for the first caller. A caller that repeats its step, because no reply came, has the same token.
-- KEYS: the mark
-- ARGV: token, ms to keep it
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
