-- Arguments: value, number, lifetime in milliseconds.
local newest = redis.call('HGET', KEYS[1], 'fence')
if newest then
  newest = tonumber(newest)
  if not newest or not (newest < 9007199254740992) then return redis.error_reply('FORMAT') end
  if newest > tonumber(ARGV[2]) then return 0 end
end
redis.call('HSET', KEYS[1], 'fence', ARGV[2], 'value', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
