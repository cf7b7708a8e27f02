-- One rate window that the members of a fleet share. Times are in milliseconds.
--
-- KEYS[1] the window, a hash:
--           reset  X-RateLimit-Reset, a number of the service that is only compared
--           left   the least X-RateLimit-Remaining that was told for this reset; absent: the service tells none
--           limit  X-RateLimit-Limit, only shown
--           ends   when the window is over, by our clock
--           untold how many answers in a row told no numbers, while none were known
--           probe, until   the claim that finds the next window, and how long the others wait for its answer
-- KEYS[2] claims without an answer, a sorted set: when each was made
-- KEYS[3] members, a sorted set: when each made its last claim
-- ARGV    claim | answer | lost | return | look | leave, the claim, the member, the time (empty: the server's)
--         answer: its status, limit, remaining and reset (empty: not told), the time from Date to the reset (empty: no
--         Date), the wait that a 429 asked for
-- Reply   {1 if it may be sent, time to wait, members, claims without an answer, left, limit, time to the end}
--         -1: not known
local WINDOW, FARTHEST, MARGIN, PROBE, POLL, UNTOLD = 60000, 65000, 1000, 5000, 50, 3
local SEEN = 2 * WINDOW -- members wait up to a window between two claims
local action, claim, member, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local read = redis.call('HMGET', KEYS[1], 'reset', 'left', 'ends', 'probe', 'until', 'limit', 'untold')
local reset, left, ends, probe, limit = tonumber(read[1]), tonumber(read[2]), tonumber(read[3]), read[4], read[6]
local probing = probe and tonumber(read[5])
probing = probing and probing > now and probing <= now + PROBE and probing
-- A window that nobody renewed is forgotten; so is one that ends too late: the server's clock was set back.
if ends and (now >= ends + WINDOW or ends > now + FARTHEST + MARGIN) then
  redis.call('HDEL', KEYS[1], 'reset', 'left', 'limit', 'ends')
  reset, left, ends, limit = nil, nil, nil, false
end

local function keep(...)
  redis.call('HSET', KEYS[1], ...)
  redis.call('PEXPIRE', KEYS[1], 3 * WINDOW)
end

-- A claim without an answer is held for a window's time, in the next window too: it may reach the service there. Then
-- it is given up, and taken as counted.
redis.call('ZREMRANGEBYSCORE', KEYS[2], now + WINDOW, '+inf')
local given_up = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - WINDOW)
if left and given_up > 0 then
  left = math.max(0, left - given_up)
  keep('left', left)
end

if action == 'claim' then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - SEEN)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], now + SEEN, '+inf')
  redis.call('ZADD', KEYS[3], now, member)
  redis.call('PEXPIRE', KEYS[3], SEEN)
  local waiting, wait = redis.call('ZCARD', KEYS[2]), 0
  if not ends or now >= ends then
    if probing then
      wait = math.min(probing - now, math.max(POLL, now + PROBE - probing))
    else
      keep('probe', claim, 'until', now + PROBE)
    end
  elseif left and left <= 0 then
    wait = ends - now
  elseif left and left <= waiting then -- their answers tell what is left; the longer they take, the rarer one asks
    local newest = tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
    wait = math.min(ends - now, math.max(POLL, now - newest))
  end
  if wait == 0 then
    redis.call('ZADD', KEYS[2], now, claim)
    redis.call('PEXPIRE', KEYS[2], WINDOW)
  end
  return {wait == 0 and 1 or 0, wait, redis.call('ZCARD', KEYS[3])}
end

if action == 'leave' then
  redis.call('ZREM', KEYS[3], member)
  return {0, 0, 0}
end

if action == 'look' then
  local members = redis.call('ZCOUNT', KEYS[3], now - SEEN, '+inf')
  local to_end = ends and math.max(0, ends - now) or -1
  return {0, 0, members, redis.call('ZCARD', KEYS[2]), left or -1, tonumber(limit or -1), to_end}
end

local probed = probe == claim
if probed then
  redis.call('HDEL', KEYS[1], 'probe', 'until')
end
if action == 'lost' then -- it may have been counted
  return {0, 0, 0}
end
local made = redis.call('ZSCORE', KEYS[2], claim)
redis.call('ZREM', KEYS[2], claim)
if action == 'return' then -- it was not sent
  return {0, 0, 0}
end

local refused, told, told_reset, away = ARGV[5] == '429', tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
if told and told_reset then
  redis.call('HDEL', KEYS[1], 'untold')
  if not away then
    away = told_reset * 1000 - now
  end
  -- A reset in the past, or after more than a window: Date is wrong. A whole window is always enough.
  local ending = now + MARGIN + ((away < 0 or away > FARTHEST) and WINDOW or away)
  if not reset or told_reset > reset then
    reset, left, ends = told_reset, told, ending
    keep('reset', reset, 'left', left, 'ends', ends, 'limit', ARGV[6])
  elseif told_reset == reset then
    left = math.min(left, told)
    if probed and now >= ends then
      ends = ending
    end
    keep('left', left, 'ends', ends)
  else
    return {0, 0, 0} -- of an older window
  end
else
  local alone = redis.call('ZCARD', KEYS[2]) == 0
  if made and not alone and (left or not ends) then -- an answer under way may tell a number from before it
    redis.call('ZADD', KEYS[2], made, claim)
  elseif made and left then -- it counts, if not in the last window
    left = math.max(0, left - 1)
    keep('left', left)
  end
  if not left and not refused and tonumber(ARGV[5]) < 500 then
    local untold = tonumber(read[7] or 0) + 1
    keep('untold', untold)
    if untold >= UNTOLD then -- the service tells no limit, so there is none for a while
      keep('ends', now + WINDOW)
    end
  end
end
if refused then
  local closed = now + MARGIN + math.min(WINDOW, tonumber(ARGV[10]))
  keep('left', 0, 'ends', math.max(ends or 0, closed))
end
return {0, 0, 0}
