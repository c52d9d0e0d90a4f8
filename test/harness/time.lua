-- Stands in for lua/shared/time.lua: time as the test tells it, and nothing goes by itself.
-- The end of a key's life, µs, stands in <key>:kept, for the test to read.

-- The test's clock: the last argument, whole microseconds.
local function clock()
  return tonumber(ARGV[#ARGV])
end

local function keep(key, us, value)
  if value then redis.call('SET', key, value) end
  redis.call('SET', key .. ':kept', clock() + math.ceil(us / 1000) * 1000)
end

local function left(key)
  if redis.call('EXISTS', key) == 0 then return 0 end
  local ends = redis.call('GET', key .. ':kept')
  return ends and math.max(0, ends - clock()) or nil
end
