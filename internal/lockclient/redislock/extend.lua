-- KEYS[1] lease; ARGV[1] holder, ARGV[2] ttl in ms
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
