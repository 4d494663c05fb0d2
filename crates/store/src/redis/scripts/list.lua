-- Arguments: maximum number of bytes of all members, and of a value.
-- Value: a hash of members. Each field has the time of expiry in milliseconds, and the value.
-- Removes members that have expired, and fields that another program has written.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members, bytes = {}, 0
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local expires, value
  if #all[at + 1] <= tonumber(ARGV[2]) then expires, value = string.match(all[at + 1], '^(%d+) (.*)$') end
  if expires and tonumber(expires) > now then
    bytes = bytes + #all[at] + #value
    if bytes > tonumber(ARGV[1]) then return redis.error_reply('TOOLARGE') end
    members[#members + 1] = all[at]
    members[#members + 1] = value
  else
    redis.call('HDEL', KEYS[1], all[at])
  end
end
return members
