--[[
  Sliding window: the count of this window, and the last one's in proportion to what the
  sliding window still covers of it.
  Twin: packages/core/src/algorithms/sliding-window.ts

  Key     string: three unsigned 32-bit integers, little-endian: number of the window
          (µs since 1970 / window, modulo 2^32), count in it, count in the one before
  Policy  a  limit, at most 2^32 - 1
          b  window, µs
  State   count in this window; count in the one before, or -1 when the window is yet to come
          (the clock stepped back) and the first number is all that was counted
]]
local wrap = 4294967296

-- The window's number, and what is left of it, µs.
local function position(policy, now)
  local elapsed = now % policy.b
  return (now - elapsed) / policy.b % wrap, policy.b - elapsed
end

local function judge(key, policy, now, n)
  local read = redis.pcall('GET', key)
  local number, rest = position(policy, now)
  local current, previous, early = 0, 0, false
  if read then
    if read.err then return nil, read.err end
    if #read ~= 12 then return nil, 'BROKEN' end
    local stored, count, before = struct.unpack('<I4I4I4', read)
    local age = (number - stored) % wrap
    if age == 0 then
      current, previous = count, before
    elseif age == 1 then
      previous = count
    elseif age >= wrap / 2 then
      current, early = count + before, true
    end
  end
  -- limit - previous·(rest / window) - current, times the window: whole numbers need no rounding
  local free = (policy.a - current) * policy.b - previous * rest
  return policy.cost > 0 and math.floor(free / (policy.cost * policy.b)) or n, current, early and -1 or previous
end

local function write(key, policy, now, current, previous)
  local number, rest = position(policy, now)
  keep(key, policy.b + rest, struct.pack('<I4I4I4', number, current, previous))
  return current, previous
end

local function charge(key, policy, now, units, current, previous)
  return write(key, policy, now, current + units, math.max(0, previous))
end

-- No worse than a steady client would have left it: full before, evenly used since.
local function mend(key, policy, now, current, previous)
  if previous >= 0 and goes_in_time(key, policy) then return current, previous end
  previous = math.max(0, previous)
  local _, rest = position(policy, now)
  if previous * rest >= (policy.a - current) * policy.b then
    current, previous = math.ceil(policy.a * (policy.b - rest) / policy.b), policy.a
  end
  return write(key, policy, now, current, previous)
end

return judge, charge, mend, 2
