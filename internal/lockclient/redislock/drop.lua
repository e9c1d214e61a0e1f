-- KEYS[1] lease; ARGV[1] holder
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  redis.call('SETRANGE', KEYS[1], 0, '') -- as in extend.lua
  return 0
end
return redis.call('DEL', KEYS[1])
