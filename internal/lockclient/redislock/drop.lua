-- KEYS[1] lease; ARGV[1] holder, ARGV[2] channel
-- Whoever waits for the lease hears of it; one who may not publish drops it all the
-- same.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  redis.call('SETRANGE', KEYS[1], 0, '') -- as in extend.lua
  return 0
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[2], KEYS[1])
return 1
