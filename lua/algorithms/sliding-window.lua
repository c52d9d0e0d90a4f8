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
local function judge(key, policy, now, n)
  local read = redis.pcall('GET', key)
  local window = policy.b
  local elapsed = now % window
  local current, previous = 0, 0
  if read then
    if read.err then return nil, read.err end
    if #read ~= 12 then return nil, 'BROKEN' end
    local stored, count, before = struct.unpack('<I4I4I4', read)
    local age = ((now - elapsed) / window - stored) % 2 ^ 32
    if age == 0 then
      current, previous = count, before
    elseif age == 1 then
      previous = count
    elseif age >= 2 ^ 31 then
      current, previous = count + before, -1
    end
  end
  if policy.cost == 0 then return n, current, previous end
  -- limit - previous·(rest / window) - current, times the window: whole numbers need no rounding
  local free = (policy.a - current) * window - (previous > 0 and previous * (window - elapsed) or 0)
  return free / (policy.cost * window), current, previous
end

local function charge(key, policy, now, units, current, previous)
  local window = policy.b
  local elapsed = now % window
  current, previous = current + units, previous > 0 and previous or 0
  keep(key, now - elapsed + 2 * window, struct.pack('<I4I4I4', (now - elapsed) / window % 2 ^ 32, current, previous))
  return current, previous
end

-- No worse than a steady client would have left it: full before, evenly used since.
local function mend(key, policy, now, current, previous)
  if previous >= 0 and goes_in_time(key, policy, now) then return current, previous end
  previous = math.max(0, previous)
  local elapsed = now % policy.b
  if previous * (policy.b - elapsed) >= (policy.a - current) * policy.b then
    current, previous = math.ceil(policy.a * elapsed / policy.b), policy.a
  end
  return charge(key, policy, now, 0, current, previous)
end

--- @only "settle"
local function credit(key, policy, now, units, mark)
  local room, current, previous = judge(key, policy, now, 1)
  local number = (now - now % policy.b) / policy.b % 2 ^ 32
  if not room then return nil, current end
  if previous < 0 then return 0 end
  local given
  if mark == number then
    given = math.min(units, current)
    current = current - given
  elseif mark == (number - 1) % 2 ^ 32 then
    given = math.min(units, previous)
    previous = previous - given
  end
  if not given or given == 0 then return 0 end
  redis.call('SET', key, struct.pack('<I4I4I4', number, current, previous), 'KEEPTTL')
  return given
end
do return judge, charge, mend, 2, credit end
--- @end

return judge, charge, mend, 2
