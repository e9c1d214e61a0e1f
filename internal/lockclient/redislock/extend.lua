-- KEYS[1] lease; ARGV[1] holder, ARGV[2] ttl in ms
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  -- Writes nothing, but as a write: a replica refuses it, and its "not yours"
  -- must not be believed.
  redis.call('SETRANGE', KEYS[1], 0, '')
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
