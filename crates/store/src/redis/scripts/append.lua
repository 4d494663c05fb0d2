-- Arguments: entry, maximum number of entries, lifetime in milliseconds.
-- Value: a list. Each element has the position, the position of the first entry ever, and the entry.
local start, position
local last = redis.call('LINDEX', KEYS[1], -1)
if last then
  position, start = string.match(last, '^(%d+) (%d+) ')
  if not position then return redis.error_reply('FORMAT') end
  position = tonumber(position) + 1
  if position > 9007199254740992 then return redis.error_reply('FORMAT') end
  position = string.format('%.0f', position)
else
  -- The time keeps the positions increasing if the log has expired.
  local time = redis.call('TIME')
  start = string.format('%.0f', time[1] * 1000000 + time[2])
  position = start
end
redis.call('RPUSH', KEYS[1], position .. ' ' .. start .. ' ' .. ARGV[1])
redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return position
