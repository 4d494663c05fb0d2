-- Arguments: rate, period in microseconds, burst, wanted, returned, spent, maximum lifetime in milliseconds.
-- Value: number of tokens, and the time in microseconds.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rate, per, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local level = burst
local saved = redis.call('GET', KEYS[1])
if saved then
  local tokens, at = string.match(saved, '^(%S+) (%S+)$')
  tokens, at = tonumber(tokens), tonumber(at)
  -- A value that differs from itself is no number.
  if not tokens or not at or tokens ~= tokens or at ~= at then return redis.error_reply('FORMAT') end
  level = tokens + math.max(now - at, 0) * rate / per
end
level = math.min(level + tonumber(ARGV[5]), burst)
level = math.max(level - tonumber(ARGV[6]), -10 * burst)
local granted = math.max(math.min(math.floor(level + 1e-6), tonumber(ARGV[4])), 0)
level = level - granted
local lifetime = math.min(math.ceil((burst - level) * per / rate / 1000) + 1000, tonumber(ARGV[7]))
redis.call('SET', KEYS[1], string.format('%.6f %.0f', level, now), 'PX', string.format('%.0f', lifetime))
return {granted, math.max(math.floor(level + 1e-6), 0), math.ceil(math.max(1 - level, 0) * per / rate)}
