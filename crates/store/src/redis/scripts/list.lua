-- Value: a hash of members. Each field has the time of expiry in milliseconds, and the value.
-- Removes members that have expired, and fields that another program has written.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members = {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local expires, value = string.match(all[at + 1], '^(%d+) (.*)$')
  if expires and tonumber(expires) > now then
    members[#members + 1] = all[at]
    members[#members + 1] = value
  else
    redis.call('HDEL', KEYS[1], all[at])
  end
end
return members
