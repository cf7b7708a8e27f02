-- A heartbeat of a member: the leases on its entries start over.
-- KEYS: meta, stream, missing, groups, members
-- ARGV: incarnation, member's key, token, group, member
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 'changed' end
if string.match(redis.call('HGET', KEYS[5], ARGV[2]) or '', '^%S+') ~= ARGV[3] then return 'replaced' end
local clock = redis.call('TIME')
redis.call('HSET', KEYS[5], ARGV[2], ARGV[3] .. ' ' .. clock[1] * 1000 + math.floor(clock[2] / 1000))
for which = 2, 3 do
  for _, each in ipairs(redis.call('XPENDING', KEYS[which], ARGV[4], '-', '+', 1000, ARGV[5])) do
    -- Newer servers drop a trimmed entry when it is claimed, and nobody would hear of it.
    if redis.call('XRANGE', KEYS[which], each[1], each[1])[1] then
      redis.call('XCLAIM', KEYS[which], ARGV[4], ARGV[5], 0, each[1], 'JUSTID')
    end
  end
end
return 'ok'
