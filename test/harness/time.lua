-- Stands in for lua/shared/time.lua: time as the test tells it, and nothing goes by itself.
-- The end of a key's life, µs, stands in <key>:kept, for the test to read.

-- The test's clock: the last argument, whole microseconds.
local function clock()
  return tonumber(ARGV[#ARGV])
end

local function keep(key, ends, value)
  if value then redis.call('SET', key, value) end
  if not ends then return redis.call('DEL', key .. ':kept') end
  redis.call('SET', key .. ':kept', math.ceil(ends / 1000) * 1000)
end

local function left(key, now)
  if redis.call('EXISTS', key) == 0 then return 0 end
  local ends = redis.call('GET', key .. ':kept')
  return ends and math.max(0, ends - now) or nil
end
