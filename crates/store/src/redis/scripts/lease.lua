-- Arguments: owner, wanted, maximum, lifetime in milliseconds, maximum number of owners.
-- Value: a hash of owners. Each field has the number of slots and the time of expiry in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = now + tonumber(ARGV[4])
local others, owners, last = 0, 0, 0
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local slots, expires = string.match(all[at + 1], '^(%d+) (%d+)$')
  slots, expires = tonumber(slots), tonumber(expires)
  if not slots or slots > 9007199254740992 or expires <= now then
    -- The lease has expired, or another program has written it.
    redis.call('HDEL', KEYS[1], all[at])
  elseif all[at] ~= ARGV[1] then
    -- After the clock has been set back, a lease must not last longer than its lifetime.
    if expires > latest then
      expires = latest
      redis.call('HSET', KEYS[1], all[at], string.format('%.0f %.0f', slots, expires))
    end
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
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f', granted, latest))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(last, latest)))
return {granted, others + granted, owners + 1}
