--[[
  Fixed window: one counter, which goes when its window ends. The window begins with its first unit.
  Twin: packages/core/src/algorithms/fixed-window.ts

  Key     string: the count, an integer; its expiry is the window's end
  Policy  a  limit
          b  window, µs
  State   count; µs until the window ends: 0 when none has begun, -1 when it would outlast
          the policy's
]]
local function judge(key, policy, _, n)
  local read = redis.pcall('GET', key)
  local count, rest = 0, 0
  if read then
    if read.err then return nil, read.err end
    -- No leading zero: INCRBY would not take it.
    if not (string.find(read, '^[1-9]%d*$') or read == '0') or read + 0 >= 2 ^ 53 then return nil, 'BROKEN' end
    rest = left(key)
    if rest ~= 0 then count = read + 0 end
    if not rest or rest > policy.b then rest = -1 end
  end
  return policy.cost > 0 and (policy.a - count) / policy.cost or n, count, rest
end

local function charge(key, policy, _, units, count, rest)
  if rest == 0 then
    keep(key, policy.b, units)
    return units, policy.b
  end
  redis.call('INCRBY', key, units)
  if rest < 0 then keep(key, policy.b) end
  return count + units, rest < 0 and policy.b or rest
end

-- A window that would outlast the policy's ends one window from now.
local function mend(key, policy, _, count, rest)
  if rest >= 0 then return count, rest end
  keep(key, policy.b)
  return count, policy.b
end

return judge, charge, mend, 2
