-- Arguments: amount, maximum, lifetime in milliseconds.
local saved = redis.call('GET', KEYS[1])
if saved and not string.match(saved, '^%d+$') then return redis.error_reply('FORMAT') end
local total = tonumber(saved or '0')
if total > 9007199254740992 then return redis.error_reply('FORMAT') end
local added = math.max(math.min(tonumber(ARGV[1]), tonumber(ARGV[2]) - total), 0)
local text = string.format('%.0f', added)
if saved then
  redis.call('INCRBY', KEYS[1], text)
else
  redis.call('SET', KEYS[1], text, 'PX', ARGV[3])
end
return {added, total + added}
