-- Looks at a chain's relay and at its groups; changes nothing.
-- KEYS: meta, stream, missing, groups, members
-- Returns the time in ms, the relay's owner, until, position and last number, the entries that are kept, the id of the
-- last one, the groups as {name, number of the last entry it got, entries pending, {member, its pending ones}...}, and
-- members as pairs.
local clock = redis.call('TIME')
local known = redis.call('HMGET', KEYS[1], 'owner', 'until', 'position', 'n')
local groups, all = {}, redis.call('HGETALL', KEYS[4])
for at = 1, #all, 2 do
  local group = {all[at], tonumber(string.match(all[at + 1], '^%d+') or 0), 0}
  local pending = redis.pcall('XPENDING', KEYS[2], all[at]) -- the server may have lost the group
  if not pending.err then
    group[3] = pending[1]
    for _, each in ipairs(pending[4] or {}) do group[#group + 1] = each end
  end
  groups[#groups + 1] = group
end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
return {clock[1] * 1000 + math.floor(clock[2] / 1000), known[1] or '', known[2] or '', known[3] or '',
  tonumber(known[4] or 0), redis.call('XLEN', KEYS[2]), last[1] and last[1][1] or '', groups, redis.call('HGETALL', KEYS[5])}
