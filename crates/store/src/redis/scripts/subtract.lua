-- Argument: amount.
local saved = redis.call('GET', KEYS[1])
if not saved then return 0 end
if not string.match(saved, '^%d+$') then return redis.error_reply('FORMAT') end
local total = tonumber(saved)
if total > 9007199254740992 then return redis.error_reply('FORMAT') end
local amount = math.min(tonumber(ARGV[1]), total)
redis.call('DECRBY', KEYS[1], string.format('%.0f', amount))
return total - amount
