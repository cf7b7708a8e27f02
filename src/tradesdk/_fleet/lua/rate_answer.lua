-- What an answer says about the shared window, and the end of its claim.
-- KEYS: window (hash), claims without an answer yet (sorted set)
-- ARGV: now in ms ("" for the server's time), claim ("" for none), what is known: "unsent" if it never reached the
--       service, "nothing" if the answer has no limit, "odd" if that can't be believed, else "limit"; then for "limit":
--       reset, remaining, limit ("" if unknown), ms from the answer to the reset; and ms that a 429 closes it for (0: open)
local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local stored = redis.call('HMGET', KEYS[1], 'reset', 'left', 'ends', 'probe', 'limit')
local is_probe = ARGV[2] ~= '' and stored[4] == ARGV[2]
if ARGV[2] ~= '' then redis.call('ZREM', KEYS[2], ARGV[2]) end
if is_probe then redis.call('HDEL', KEYS[1], 'probe', 'probed') end

if ARGV[3] == 'nothing' and now >= tonumber(stored[3] or 0) then
  redis.call('HSET', KEYS[1], 'free', now + 60000)
elseif ARGV[3] == 'limit' then
  local reset, remaining = tonumber(ARGV[4]), tonumber(ARGV[5])
  local known = tonumber(stored[1])
  -- Answers arrive out of order: only a later reset is a new window. A probe was sent after the end of the old one.
  local is_new = is_probe or not known or reset > known or (reset == known and ARGV[6] ~= stored[5])
  if is_new then
    redis.call('HSET', KEYS[1], 'reset', reset, 'left', remaining, 'limit', ARGV[6], 'ends', now + ARGV[7] + 1000)
  elseif reset == known then
    redis.call('HSET', KEYS[1], 'left', math.min(remaining, tonumber(stored[2])))
  end
  redis.call('HDEL', KEYS[1], 'free')
end
if tonumber(ARGV[8]) > 0 then -- a 429 closes it for all
  local ends = tonumber(redis.call('HGET', KEYS[1], 'ends') or 0)
  redis.call('HSET', KEYS[1], 'left', 0, 'ends', math.max(ends, now + ARGV[8]))
  redis.call('HDEL', KEYS[1], 'free')
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 3600000) end
return 1
