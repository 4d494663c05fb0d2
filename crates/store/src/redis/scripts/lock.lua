-- Arguments: owner, lifetime in milliseconds, time in milliseconds for which the store keeps the number.
-- Value: a hash with the owner, the number, and the time of expiry in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = now + tonumber(ARGV[2])
local saved = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'until')
local last, expires = tonumber(saved[2] or '0'), tonumber(saved[3] or '0')
if not last or not expires or not (last < 9007199254740992) then return redis.error_reply('FORMAT') end
if saved[1] and saved[1] ~= ARGV[1] and expires > now then
  -- After the clock has been set back, a lock must not last longer than its lifetime.
  if expires > latest then redis.call('HSET', KEYS[1], 'until', string.format('%.0f', latest)) end
  return false
end
-- The time keeps the numbers increasing if the key has expired.
local fence = math.max(last + 1, time[1] * 1000000 + time[2])
local text = string.format('%.0f', fence)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', text, 'until', string.format('%.0f', latest))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', tonumber(ARGV[2]) + tonumber(ARGV[3])))
return text
