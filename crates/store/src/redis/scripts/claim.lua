-- Arguments: lifetime in milliseconds, and the identities of the fleet.
-- Sets the identity if it has none. Returns the identity of another fleet, if any.
local saved = redis.call('GET', KEYS[1])
local is_ours = not saved
for at = 2, #ARGV do is_ours = is_ours or saved == ARGV[at] end
if not is_ours then return saved end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return ''
