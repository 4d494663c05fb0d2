-- Arguments: owner, lifetime in milliseconds, time in milliseconds for which the store keeps the number.
-- Value: a hash with the owner, the number, and the time of expiry in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local saved = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'until')
if saved[1] and saved[1] ~= ARGV[1] and tonumber(saved[3]) > now then return false end
-- The time keeps the numbers increasing if the key has expired.
local fence = math.max(tonumber(saved[2] or '0') + 1, time[1] * 1000000 + time[2])
local text = string.format('%.0f', fence)
local expires = string.format('%.0f', now + tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', text, 'until', expires)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', tonumber(ARGV[2]) + tonumber(ARGV[3])))
return text
