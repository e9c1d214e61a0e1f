-- KEYS[1] lease; ARGV[1] holder, ARGV[2] ttl in ms
-- One command takes the lock and its expiry together. A lost race answers for
-- how long the winner has it. Meeting one's own value is a take whose answer
-- was lost and that was sent again: holders are never used twice.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {1, ARGV[1], tonumber(ARGV[2])}
end
local current = redis.call('GET', KEYS[1])
local taken = current == ARGV[1] and 1 or 0
return {taken, current, redis.call('PTTL', KEYS[1])}
