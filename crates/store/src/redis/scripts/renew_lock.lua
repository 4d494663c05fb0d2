-- Arguments: number, lifetime in milliseconds or 0 to release the lock, time for which the store keeps the number.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local saved = redis.call('HMGET', KEYS[1], 'fence', 'until')
if saved[1] ~= ARGV[1] or (tonumber(saved[2]) or 0) <= now then return 0 end
redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + tonumber(ARGV[2])))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', tonumber(ARGV[2]) + tonumber(ARGV[3])))
return 1
