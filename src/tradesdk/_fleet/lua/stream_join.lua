-- A member joins, or joins again: notices another run of the server, makes the group, writes the member down.
-- KEYS: meta, stream, missing, groups, members
-- ARGV: run id, a new incarnation, member's key, token, group ("" for none), 1 if it was here before, from when ("")
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, key in ipairs({KEYS[2], KEYS[3]}) do redis.call('XLEN', key) end -- of another type: fail before any change
local known = redis.call('HMGET', KEYS[1], 'run', 'incarnation', 'n', 'begin', 'wanted')
local incarnation, n, begun = known[2], tonumber(known[3] or 0), known[4]

if known[1] ~= ARGV[1] then
  -- After a failover the last writes may be gone: whatever is here, or is older, may have been delivered before.
  incarnation = ARGV[2]
  redis.call('HSET', KEYS[1], 'run', ARGV[1], 'incarnation', incarnation, 'suspect', n,
    'changed', known[1] and clock[1] or 0)
end

local back = ARGV[6] == '1'
if back and redis.call('HGET', KEYS[1], 'changed') == '0' then redis.call('HSET', KEYS[1], 'changed', clock[1]) end
local from = tonumber(ARGV[7])
if back and from and not begun and (not known[5] or tonumber(known[5]) > from) then
  redis.call('HSET', KEYS[1], 'wanted', ARGV[7]) -- where the relay has to begin
end

for key, value in pairs((function() -- those that have not been here for a day
  local all, found = redis.call('HGETALL', KEYS[5]), {}
  for at = 1, #all, 2 do found[all[at]] = tonumber(string.match(all[at + 1], ' (%d+)$') or 0) end
  return found
end)()) do
  if value < now - 86400000 then
    redis.call('HDEL', KEYS[5], key)
    local group = string.match(key, '^(anonymous/[^/]+)/')
    if group then
      for _, stream in ipairs({KEYS[2], KEYS[3]}) do redis.pcall('XGROUP', 'DESTROY', stream, group) end
      redis.call('HDEL', KEYS[4], group)
    end
  end
end

local group = ARGV[5]
if group ~= '' then
  if not redis.call('HGET', KEYS[4], group) then
    -- One that was here and finds no group: the server has lost it.
    for _, key in ipairs({KEYS[2], KEYS[3]}) do
      local made = redis.pcall('XGROUP', 'CREATE', key, group, back and key == KEYS[2] and '0' or '$', 'MKSTREAM')
      if type(made) == 'table' and made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
    end
    redis.call('HSET', KEYS[4], group, (back and 0 or n) .. ' ' .. (from or tonumber(clock[1])))
    if back and from and begun and from < tonumber(begun) then
      redis.call('XADD', KEYS[3], 'MAXLEN', '~', 1000, '*', 'group', group, 'first', 0, 'last', 0,
        'start', ARGV[7], 'end', begun, 'why', 'lost')
    end
  end
  redis.call('HSET', KEYS[5], ARGV[3], ARGV[4] .. ' ' .. now)
end
local suspect = redis.call('HMGET', KEYS[1], 'suspect', 'changed')
return {incarnation, tonumber(suspect[1]), tonumber(suspect[2])}
