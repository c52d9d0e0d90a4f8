-- All that a script knows of time. Tests swap this file for test/harness/time.lua.

-- The server's clock in whole microseconds, asked once per script. Every process asks the
-- same clock, so skew between them never matters. Doubles count microseconds exactly to 2255.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Keeps `key` until `ends`, µs, rounded up to a millisecond, or for ever when that is nil; with a
-- value, sets it too. The moment is absolute: however long a script is held up after it asked for
-- the time, its keys end when it meant them to. A key that has gone must read the same as one never
-- written, so that a late expiry changes no answer.
local function keep(key, ends, value)
  if not ends then return redis.call('SET', key, value) end
  -- As text: Redis 7.0 is slow at writing a number.
  local ms = string.format('%d', math.ceil(ends / 1000))
  if value then
    redis.call('SET', key, value, 'PXAT', ms)
  else
    redis.call('PEXPIREAT', key, ms)
  end
end

-- Microseconds from `now` until `key` goes: 0 when it is gone, nil when it would stay for ever.
local function left(key, now)
  local ms = redis.call('PEXPIRETIME', key)
  if ms == -1 then return nil end
  return math.max(0, ms * 1000 - now)
end
