-- Claims one request of the shared window, or says how long to wait before the next claim.
-- KEYS: window (hash), claims without an answer yet (sorted set: id, when it is given up), members (id, last seen)
-- ARGV: now in ms ("" for the server's time), claim, member, lease of a claim in ms, patience with a probe in ms
-- Returns: ms to wait (0: claimed), ms over which to spread what waits, members, limit ("" if unknown)
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
redis.call('ZADD', KEYS[3], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - 120000)
local members = redis.call('ZCARD', KEYS[3])

local stored = redis.call('HMGET', KEYS[1], 'left', 'ends', 'probe', 'probed', 'free', 'limit')
local left, ends, probe = tonumber(stored[1]), tonumber(stored[2] or 0), stored[3]
local given_up = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if left and given_up > 0 then -- they may have reached the service
  left = math.max(0, left - given_up)
  redis.call('HSET', KEYS[1], 'left', left)
end

local wait, spread = 0, 0
if tonumber(stored[5] or 0) > now then -- the service names no limit
elseif left and now < ends then
  if left == 0 then
    wait, spread = ends - now, 1000
  elseif left <= redis.call('ZCARD', KEYS[2]) then -- one that was never sent may be given back
    wait, spread = math.min(ends - now, 1000), 50
  end
elseif probe and redis.call('ZSCORE', KEYS[2], probe) and tonumber(stored[4]) + ARGV[5] > now then
  wait, spread = 25, 50 -- nothing is known, or the window is over: one request asks, and the others wait for its answer
else
  redis.call('HSET', KEYS[1], 'probe', ARGV[2], 'probed', now)
end
if wait == 0 then redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[2]) end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 3600000) end
return {math.ceil(wait), spread, members, stored[6] or ''}
