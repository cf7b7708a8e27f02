-- Writes signals to the stream, each id once, and moves the relay's checkpoint: all of it, or nothing.
-- KEYS: meta, stream, seen (hash: id, number), times (sorted set: id, time)
-- ARGV: incarnation, owner, fencing number, lease in ms, entries to keep, topic ("" for none),
--       begin, position, ids are forgotten before ("" if the checkpoint stays), ids that only count as seen: how many,
--       these as pairs id, time; then the entries as id, time, type, payload
-- Returns status, the number of new entries, and the number of each entry.
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'fence', 'owner', 'n', 'ms')
if known[1] ~= ARGV[1] then return {'changed'} end
if known[2] ~= ARGV[3] or known[3] ~= ARGV[2] then return {'lost'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local n, ms = tonumber(known[4] or 0), math.max(tonumber(known[5] or 0), now)

local at = 11
for _ = 1, tonumber(ARGV[10]) do
  if redis.call('HSETNX', KEYS[3], ARGV[at], 0) == 1 then redis.call('ZADD', KEYS[4], ARGV[at + 1], ARGV[at]) end
  at = at + 2
end
local first, numbers = n, {}
for entry = at, #ARGV, 4 do
  local id, time, kind, payload = ARGV[entry], ARGV[entry + 1], ARGV[entry + 2], ARGV[entry + 3]
  local number = redis.call('HGET', KEYS[3], id)
  if not number then
    n = n + 1
    number = n
    local key = string.format('%.0f-%.0f', ms, n) -- numbers without holes: a reader sees what was trimmed
    if ARGV[6] == '' then
      redis.call('XADD', KEYS[2], key, 'payload', payload, 'type', kind, 'time', time)
    else
      redis.call('XADD', KEYS[2], key, 'topic', ARGV[6], 'payload', payload, 'type', kind, 'encoding', 'json',
        'time', time)
    end
    redis.call('HSET', KEYS[3], id, n)
    redis.call('ZADD', KEYS[4], time, id)
  end
  numbers[#numbers + 1] = tonumber(number)
end
if n > first then redis.call('XTRIM', KEYS[2], 'MAXLEN', ARGV[5]) end
redis.call('HSET', KEYS[1], 'n', n, 'ms', string.format('%.0f', ms), 'until', now + tonumber(ARGV[4]))
if ARGV[8] ~= '' then
  redis.call('HSET', KEYS[1], 'begin', ARGV[7], 'position', ARGV[8])
  local old = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', '(' .. ARGV[9], 'LIMIT', 0, 1000)
  if #old > 0 then
    redis.call('HDEL', KEYS[3], unpack(old))
    redis.call('ZREM', KEYS[4], unpack(old))
  end
end
return {'ok', n - first, numbers}
