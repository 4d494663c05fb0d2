-- Arguments: maximum number of bytes.
-- A larger value is from another program.
if redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) then return redis.error_reply('FORMAT') end
return redis.call('GET', KEYS[1])
