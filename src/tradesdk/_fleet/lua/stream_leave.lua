-- A member leaves: what it has not acknowledged can be claimed at once.
-- KEYS: meta, stream, missing, groups, members
-- ARGV: incarnation, member's key, token, group, member, lease in ms, 1 to remove its group
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 'changed' end
if string.match(redis.call('HGET', KEYS[5], ARGV[2]) or '', '^%S+') ~= ARGV[3] then return 'replaced' end
redis.call('HDEL', KEYS[5], ARGV[2])
for which = 2, 3 do
  if ARGV[7] == '1' then
    redis.call('XGROUP', 'DESTROY', KEYS[which], ARGV[4])
  else
    local pending = redis.call('XPENDING', KEYS[which], ARGV[4], '-', '+', 1000, ARGV[5])
    for _, each in ipairs(pending) do
      if redis.call('XRANGE', KEYS[which], each[1], each[1])[1] then
        redis.call('XCLAIM', KEYS[which], ARGV[4], ARGV[5], 0, each[1], 'IDLE', ARGV[6], 'JUSTID')
      end
    end
    if #pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[which], ARGV[4], ARGV[5]) end
  end
end
if ARGV[7] == '1' then redis.call('HDEL', KEYS[4], ARGV[4]) end
return 'ok'
