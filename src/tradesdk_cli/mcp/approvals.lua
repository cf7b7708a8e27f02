-- What AI clients want to do, and a person's yes or no to it. Times are in milliseconds, by the server's clock.
--
-- KEYS[1] actions, a hash: from the code of an action to the action, a flat JSON object
-- KEYS[2] changed, a sorted set: when each was last changed
-- KEYS[3] codes, a hash: from the hash of a content to the codes of its actions, the newest first
-- KEYS[4] waiting, a sorted set: when each was prepared that waits for a person
-- ARGV    add | find | change, the time, how long actions are kept, how long they are valid
--         add: the action, its code, its digest, how many may wait (empty: any number)
--         find: a digest
--         change: the step, a code, the new state, by and outcome (empty: as before), the states that are expected
-- Reply   add: the action that is in force now; nil: too many wait
--         find: the action that is in force, or nil
--         change: 1; 0 if it was in none of the expected states
local action, now, kept, valid = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- The same rule as in approvals.py.
local function in_force(digest)
  for code in (redis.call('HGET', KEYS[3], digest) or ''):gmatch('%S+') do
    local text = redis.call('HGET', KEYS[1], code)
    local one = cjson.decode(text)
    local begun = one.state == 'started' or one.state == 'done' or one.state == 'unknown'
    local from = begun and one.updated or one.created
    if now < from + ((begun and one.kind == 'purchase') and kept or valid) then return text end
  end
  return false
end

local function forget(code)
  local digest = cjson.decode(redis.call('HGET', KEYS[1], code)).digest
  local left = {}
  for other in redis.call('HGET', KEYS[3], digest):gmatch('%S+') do
    if other ~= code then left[#left + 1] = other end
  end
  if #left > 0 then
    redis.call('HSET', KEYS[3], digest, table.concat(left, ' '))
  else
    redis.call('HDEL', KEYS[3], digest)
  end
  redis.call('HDEL', KEYS[1], code)
  redis.call('ZREM', KEYS[2], code)
end

if action == 'add' then
  local text, code, digest, most = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. now - kept)) do forget(old) end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - valid)
  local found = in_force(digest)
  if found then return found end
  if most and redis.call('ZCARD', KEYS[4]) >= most then return false end
  if redis.call('HEXISTS', KEYS[1], code) == 1 then return redis.error_reply('this code is taken') end
  local others = redis.call('HGET', KEYS[3], digest)
  redis.call('HSET', KEYS[1], code, text)
  redis.call('ZADD', KEYS[2], now, code)
  redis.call('HSET', KEYS[3], digest, others and code .. ' ' .. others or code)
  if cjson.decode(text).state == 'pending' then redis.call('ZADD', KEYS[4], now, code) end
  return text
end

if action == 'find' then return in_force(ARGV[5]) end

local step, code, state, by, outcome = unpack(ARGV, 5, 9)
local text = redis.call('HGET', KEYS[1], code)
if not text then return 0 end
local one, expected = cjson.decode(text), false
if one.step == step then return 1 end -- done by an earlier try, whose reply was lost
for at = 10, #ARGV do expected = expected or ARGV[at] == one.state end
if not expected then return 0 end
one.state, one.updated, one.step = state, now, step
if by ~= '' then one.by = by end
if outcome ~= '' then one.outcome = outcome end
redis.call('HSET', KEYS[1], code, cjson.encode(one))
redis.call('ZADD', KEYS[2], now, code)
redis.call('ZREM', KEYS[4], code)
return 1
