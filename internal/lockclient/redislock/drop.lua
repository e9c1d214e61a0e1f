-- KEYS[1] lease; ARGV[1] holder, ARGV[2] channel
-- Whoever waits for the lease hears of it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], KEYS[1])
return 1
