-- All that a script knows of time. Tests swap this file for test/harness/time.lua.

-- The server's clock in whole microseconds, asked once per script. Every process asks the
-- same clock, so skew between them never matters. Doubles count microseconds exactly to 2255.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Keeps `key` for as long as it still means something, `us` microseconds; with a value, sets it
-- too. A key that has gone must read the same as one never written, so that a late expiry
-- changes no answer.
local function keep(key, us, value)
  -- As text: Redis 7.0 is slow at writing a number.
  local ms = string.format('%d', math.ceil(us / 1000))
  if value then
    redis.call('PSETEX', key, ms, value)
  else
    redis.call('PEXPIRE', key, ms)
  end
end

-- Microseconds until `key` goes: 0 when it is gone (Redis still shows a key during the
-- millisecond in which it ends), nil when it would stay for ever.
local function left(key)
  local ms = redis.call('PTTL', key)
  if ms == -1 then return nil end
  return math.max(0, ms) * 1000
end
