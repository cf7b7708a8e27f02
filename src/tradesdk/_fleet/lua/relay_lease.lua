-- Takes, renews or gives back the lease of the relay. Each taking has a greater fencing number.
-- KEYS: meta, stream
-- ARGV: incarnation, owner, lease in ms, fencing number (0: has none), 1 to give it back
-- Returns status and: held: number, begin, position, wanted, through | other: its owner, ms left
local known = redis.call('HMGET', KEYS[1], 'incarnation', 'fence', 'owner', 'until', 'begin', 'position', 'wanted')
if known[1] ~= ARGV[1] then return {'changed'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local fence, owner, ends = tonumber(known[2] or 0), known[3], tonumber(known[4] or 0)
local mine = owner == ARGV[2] and fence == tonumber(ARGV[4])
if ARGV[5] == '1' then
  if mine then redis.call('HDEL', KEYS[1], 'owner', 'until') end
  return {'released'}
end
if not mine then
  if tonumber(ARGV[4]) > 0 then return {'lost', owner or ''} end
  -- Its own, with another number: the reply of the taking was lost.
  if owner and owner ~= ARGV[2] and ends > now then return {'other', owner, ends - now} end
  fence = fence + 1
  redis.call('HSET', KEYS[1], 'fence', fence, 'owner', ARGV[2])
end
redis.call('HSET', KEYS[1], 'until', now + tonumber(ARGV[3]))

-- Up to which entry each group has acknowledged all.
local function number(id) return tonumber(string.match(id, '%-(%d+)$')) end
local through
if redis.call('EXISTS', KEYS[2]) == 1 then
  for _, each in ipairs(redis.call('XINFO', 'GROUPS', KEYS[2])) do
    local group = {}
    for at = 1, #each, 2 do group[each[at]] = each[at + 1] end
    local done = number(group['last-delivered-id'])
    if group.pending > 0 then done = math.min(done, number(redis.call('XPENDING', KEYS[2], group.name)[2]) - 1) end
    through = math.min(through or done, done)
  end
end
return {'held', fence, known[5] or '', known[6] or '', known[7] or '', through or -1}
