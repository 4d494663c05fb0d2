-- Arguments: owner, wanted, maximum, lifetime in milliseconds, maximum number of owners.
-- Value: a hash of owners. Each field has the number of slots and the time of expiry in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local others, owners, last = 0, 0, 0
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local slots, expires = string.match(all[at + 1], '^(%d+) (%d+)$')
  slots, expires = tonumber(slots), tonumber(expires)
  if not slots then return redis.error_reply('FORMAT') end
  if expires <= now then
    redis.call('HDEL', KEYS[1], all[at])
  elseif all[at] ~= ARGV[1] then
    others = others + slots
    owners = owners + 1
    last = math.max(last, expires)
  end
end
local granted = math.max(math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) - others), 0)
if granted == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return {0, others, owners}
end
if owners >= tonumber(ARGV[5]) then return redis.error_reply('TOOLARGE') end
local expires = now + tonumber(ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f', granted, expires))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(last, expires)))
return {granted, others + granted, owners + 1}
