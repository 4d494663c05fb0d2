-- Arguments: position, maximum number of entries, maximum number of bytes.
-- Result: 1 if no entry is missing after the position, and the elements.
local position, max, bytes_max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('LINDEX', KEYS[1], 0)
if not head then return {position == 0 and 1 or 0} end
local first, start = string.match(head, '^(%d+) (%d+) ')
first, start = tonumber(first), tonumber(start)
if not first then return redis.error_reply('FORMAT') end
local length = redis.call('LLEN', KEYS[1])
local is_complete = position >= math.max(start, first - 1) and position < first + length
if position == 0 then is_complete = first == start end
local from = math.max(position - first + 1, 0)
local result = {is_complete and 1 or 0}
if from < length then
  local elements = redis.call('LRANGE', KEYS[1], string.format('%.0f', from), string.format('%.0f', from + max - 1))
  local bytes = 0
  for at = 1, #elements do
    bytes = bytes + #elements[at]
    if bytes > bytes_max then
      -- Only another program writes such an entry.
      if at == 1 then return redis.error_reply('FORMAT') end
      break
    end
    result[at + 1] = elements[at]
  end
end
return result
