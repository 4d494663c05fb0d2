local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members = {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local expires, value = string.match(all[at + 1], '^(%d+) (.*)$')
  if not expires then return redis.error_reply('FORMAT') end
  if tonumber(expires) > now then
    members[#members + 1] = all[at]
    members[#members + 1] = value
  end
end
return members
