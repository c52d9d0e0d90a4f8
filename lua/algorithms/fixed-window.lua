--[[
  Fixed window: one counter, which goes when its window ends.
  Twin: packages/core/src/algorithms/fixed-window.ts

  Key     string: the count, an integer; its expiry is the window's end
  Policy  a  limit
          c  0 (here nil): a window begins with its first unit, and b is its length, µs
             -1: at whole multiples of b since 1970
             else a calendar window: from b until just before c, µs
  State   count; µs until the window ends: 0 when none has begun, the length of one, negative,
          when this one would outlast it
]]

-- What a key's life may be off by, µs: Redis keeps whole milliseconds.
local rounding = 1000

-- How long a window that begins now lasts, µs; nil when now is outside the one that was passed. One
-- that begins with its first unit ends with the last whole millisecond of its length.
local function length(policy, now)
  if not policy.c then return policy.b - now % 1000 end
  if policy.c < 0 then return policy.b - now % policy.b end
  return now >= policy.b and now < policy.c and policy.c - now or nil
end

-- µs until the window of a key ends, as the state has it.
local function rest_of(key, policy, now, whole)
  local us = left(key, now)
  if us == 0 then return 0 end
  if not policy.c then return us and us <= policy.b and us or -whole end
  if us and us < whole - rounding then return 0 end -- of a window before this one
  return us and us <= whole + rounding and whole or -whole
end

local function judge(key, policy, now, n)
  local whole = length(policy, now)
  if not whole then return nil, 'BOUNDS' end
  local read = redis.pcall('GET', key)
  local count, rest = 0, 0
  if read then
    if read.err then return nil, read.err end
    -- No leading zero: INCRBY would not take it.
    if not (string.find(read, '^[1-9]%d*$') or read == '0') or read + 0 >= 2 ^ 53 then return nil, 'BROKEN' end
    rest = rest_of(key, policy, now, whole)
    if rest ~= 0 then count = read + 0 end
  end
  return policy.cost > 0 and (policy.a - count) / policy.cost or n, count, rest
end

local function charge(key, policy, now, units, count, rest)
  if rest == 0 then
    local whole = length(policy, now)
    keep(key, now + whole, units)
    return units, whole
  end
  redis.call('INCRBY', key, units)
  if rest < 0 then keep(key, now - rest) end
  return count + units, math.abs(rest)
end

local function mend(key, _, now, count, rest)
  if rest >= 0 then return count, rest end
  keep(key, now - rest)
  return count, -rest
end

--- @only "settle"
local function credit(key, policy, now, units, mark)
  local room, count, rest = judge(key, policy, now, 1)
  if not room then return nil, count end
  if rest <= 0 or count == 0 or math.abs(now + rest - mark) > 2 * rounding then return 0 end
  redis.call('DECRBY', key, math.min(units, count))
  return math.min(units, count)
end
do return judge, charge, mend, 2, credit end
--- @end

return judge, charge, mend, 2
