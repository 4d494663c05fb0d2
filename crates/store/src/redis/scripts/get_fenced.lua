-- Arguments: maximum number of bytes.
-- A larger value is from another program.
local max = tonumber(ARGV[1])
if redis.call('HSTRLEN', KEYS[1], 'fence') > max or redis.call('HSTRLEN', KEYS[1], 'value') > max then
  return redis.error_reply('FORMAT')
end
return redis.call('HMGET', KEYS[1], 'fence', 'value')
