-- A member acknowledges what it is done with, and gets the next entry: one step, so that a lost reply loses nothing.
-- KEYS: meta, stream, missing, groups, members
-- ARGV: incarnation, member's key, token, group, member, lease in ms, mode (next, drain, ack), entries in its hands,
--       then pairs: which (2 stream, 3 missing), id
-- Returns status, entries {which, id, deliveries, fields}, the last ids of both streams, ids that were not its own.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {'changed'} end
local group, member, lease, mode, held = ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
local token = string.match(redis.call('HGET', KEYS[5], ARGV[2]) or '', '^%S+')
if token ~= ARGV[3] then return {'replaced'} end

local function number(id) return tonumber(string.match(id, '%-(%d+)$')) end
local function field(fields, name)
  for at = 1, #fields, 2 do if fields[at] == name then return fields[at + 1] end end
end
local function note_missing(first, last, start, stop, why)
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', 1000, '*', 'group', group, 'first', first, 'last', last,
    'start', start, 'end', stop, 'why', why)
end
local function content(which, id)
  local found = redis.call('XRANGE', KEYS[which], id, id)
  if found[1] then return found[1][2] end
  -- Trimmed while it was pending. Each engine does something else with such an entry: it ends here.
  redis.call('XACK', KEYS[which], group, id)
  if which == 2 then
    local at = tonumber(string.match(id, '^%d+')) / 1000
    note_missing(number(id), number(id), at - 10, at + 1, 'pending')
  end
end

local others = {}
for at = 9, #ARGV, 2 do
  local key, id = KEYS[tonumber(ARGV[at])], ARGV[at + 1]
  local pending = redis.call('XPENDING', key, group, id, id, 1)
  if pending[1] and pending[1][2] == member then redis.call('XACK', key, group, id) else others[#others + 1] = id end
end
if mode == 'ack' then return {'ok', {}, '', '', others} end

local got = {}
local function take(which, id, count, fields)
  if which == 3 and field(fields, 'group') ~= group then
    redis.call('XACK', KEYS[3], group, id)
  else
    got[#got + 1] = {which, id, count, fields}
  end
end
local function answer()
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
  local missing = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
  return {'ok', got, last[1] and last[1][1] or '0-0', missing[1] and missing[1][1] or '0-0', others}
end

if mode == 'drain' then -- what it was given and may not know of
  for which = 3, 2, -1 do
    for _, each in ipairs(redis.call('XPENDING', KEYS[which], group, '-', '+', 1000, member)) do
      local fields = content(which, each[1])
      if fields then
        redis.call('XCLAIM', KEYS[which], group, member, 0, each[1], 'JUSTID')
        take(which, each[1], each[4], fields)
      end
    end
  end
  return answer()
end

for which = 3, 2, -1 do -- what a dead member has left
  for _, each in ipairs(redis.call('XPENDING', KEYS[which], group, 'IDLE', lease, '-', '+', held + 1)) do
    if each[2] ~= member and #got == 0 then
      local fields = content(which, each[1])
      if fields then
        redis.call('XCLAIM', KEYS[which], group, member, 0, each[1])
        take(which, each[1], each[4] + 1, fields)
      end
    end
  end
end

local function read_missing()
  while true do
    local found = redis.call('XREADGROUP', 'GROUP', group, member, 'COUNT', 1, 'STREAMS', KEYS[3], '>')
    if not found or not found[1] then return end
    local entry = found[1][2][1]
    take(3, entry[1], 1, entry[2])
    if #got > 0 then return end
  end
end
if #got == 0 then read_missing() end
if #got == 0 then
  local found = redis.call('XREADGROUP', 'GROUP', group, member, 'COUNT', 1, 'STREAMS', KEYS[2], '>')
  if found and found[1] then
    local entry = found[1][2][1]
    local n, time = number(entry[1]), field(entry[2], 'time')
    local last, before = string.match(redis.call('HGET', KEYS[4], group) or '0 0', '^(%S+) (%S+)$')
    if n > tonumber(last) + 1 then -- those between were trimmed before any member got them
      note_missing(tonumber(last) + 1, n - 1, before, time, 'trimmed')
      read_missing()
    end
    if n > tonumber(last) then redis.call('HSET', KEYS[4], group, n .. ' ' .. time) end
    take(2, entry[1], 1, entry[2])
  end
end
return answer()
