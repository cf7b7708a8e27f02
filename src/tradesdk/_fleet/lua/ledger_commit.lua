-- One step of a ledger, whole or not at all. The member decided what to write, from what it read before.
--
-- KEYS  1 payments  2 index  3 sums  4 slots  5 meta  6 trusted  7 replies  8 log
-- ARGV  1 id of the step
--       2 id of the payment that it changes, or ""
--       3 sequence number and 4 hash that the member knows, or "" and ""
--       5 the money counter as it was read, or ""
--       6 "1": this step may leave less room in a budget, so the counter goes up
--       7 n; then n times: number of a key, field, SHA-1 of its value ("" if there is none)
--       then commands: name, number of the key, m, m arguments
local known = redis.call('HMGET', KEYS[5], 'seq', 'hash', 'money')
local seq, hash, money = known[1] or '0', known[2] or '', known[3] or '0'

-- The store is a younger or another one than the member has seen.
if ARGV[3] ~= '' and redis.call('HGET', KEYS[8], ARGV[3]) ~= ARGV[4] then
  return {'back'}
end

-- Sent again, as its reply was lost: it is done.
if ARGV[2] ~= '' then
  local text = redis.call('HGET', KEYS[1], ARGV[2])
  if text and string.find(text, '"' .. ARGV[1] .. '"', 1, true) then
    return {'done', seq, hash, text}
  end
end

-- Somebody was faster: what the member read is no longer so.
local at = 8
for _ = 1, tonumber(ARGV[7]) do
  local value = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1])
  if (value and redis.sha1hex(value) or '') ~= ARGV[at + 2] then
    return {'conflict'}
  end
  at = at + 3
end
if ARGV[5] ~= '' and ARGV[5] ~= money then
  return {'conflict'}
end

local chained = {hash}
while at <= #ARGV do
  local key, count = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  redis.call(ARGV[at], KEYS[key], unpack(ARGV, at + 3, at + 2 + count))
  if key == 1 then  -- a record: id and text
    chained[#chained + 1] = ARGV[at + 4]
  end
  at = at + 3 + count
end

local new = string.format('%.0f', tonumber(seq) + 1)
hash = redis.sha1hex(table.concat(chained, '\n') .. '\n' .. ARGV[1])
redis.call('HSET', KEYS[5], 'seq', new, 'hash', hash)
if ARGV[6] == '1' then
  redis.call('HINCRBY', KEYS[5], 'money', 1)
end
redis.call('HSET', KEYS[8], new, hash)
redis.call('HDEL', KEYS[8], string.format('%.0f', tonumber(seq) + 1 - 10000))
return {'ok', new, hash}
