-- All that a decision needs, at one moment. It changes nothing.
--
-- KEYS  1 payments  2 index  3 sums  4 slots  5 meta  6 trusted  7 replies  8 log
-- ARGV  1 the sequence number that the member knows, or "0"; then parts: name, number of arguments, arguments
local function record(id)
  return {id, redis.call('HGET', KEYS[1], id), redis.call('HGET', KEYS[7], id)}
end

local parts = {}

function parts.payment(id)
  return record(id)
end

-- Members of the index between two texts, in one of both directions.
function parts.members(from, to, count, newest_first)
  if newest_first == '1' then
    return redis.call('ZREVRANGEBYLEX', KEYS[2], '(' .. to, '[' .. from, 'LIMIT', 0, count)
  end
  return redis.call('ZRANGEBYLEX', KEYS[2], '[' .. from, '(' .. to, 'LIMIT', 0, count)
end

-- Their payments: a member ends with the id.
function parts.payments(...)
  local found = {}
  for number, member in ipairs(parts.members(...)) do
    found[number] = record(string.match(member, '[^:]*$'))
  end
  return found
end

-- What counts, and what is held, in ranges of slots: from and to, for each range.
function parts.sums(...)
  local ranges, found = {...}, {'all', redis.call('HGET', KEYS[3], 'all'), redis.call('HGET', KEYS[3], 'h:all')}
  for at = 1, #ranges, 2 do
    for _, slot in ipairs(redis.call('ZRANGEBYLEX', KEYS[4], '[' .. ranges[at], '(' .. ranges[at + 1])) do
      found[#found + 1] = slot
      found[#found + 1] = redis.call('HGET', KEYS[3], slot)
      found[#found + 1] = redis.call('HGET', KEYS[3], 'h:' .. slot)
    end
  end
  return found
end

function parts.trusted(origin)
  return redis.call('HGET', KEYS[6], origin)
end

local reply = {
  redis.call('TIME'),
  redis.call('HMGET', KEYS[5], 'version', 'seq', 'hash', 'money', 'budget', 'sealed_by', 'secret'),
  redis.call('HGET', KEYS[8], ARGV[1]),
}
local at = 2
while at <= #ARGV do
  local count = tonumber(ARGV[at + 1])
  reply[#reply + 1] = parts[ARGV[at]](unpack(ARGV, at + 2, at + 1 + count))
  at = at + 2 + count
end
return reply
