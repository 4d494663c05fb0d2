-- Arguments: member, value, lifetime in milliseconds, maximum number of members.
-- Value: a hash of members. Each field has the time of expiry in milliseconds, and the value.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local max = tonumber(ARGV[4])
-- A value of another type is from another program.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local function is_full()
  return redis.call('HLEN', KEYS[1]) >= max and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0
end
if is_full() then
  local all = redis.call('HGETALL', KEYS[1])
  for at = 1, #all, 2 do
    local expires = tonumber(string.match(all[at + 1], '^(%d+) '))
    if not expires or expires <= now then redis.call('HDEL', KEYS[1], all[at]) end
  end
  if is_full() then return redis.error_reply('TOOLARGE') end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now + tonumber(ARGV[3])) .. ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1
