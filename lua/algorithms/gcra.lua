--[[
  GCRA, the generic cell rate algorithm: a bucket of which only the moment is kept at which it
  will be whole again, the theoretical arrival time (TAT).
  Twin: packages/core/src/algorithms/gcra.ts

  Key     string: the TAT in quarters of a µs, an integer
  Policy  a  burst: units that may come at once
          b  interval per unit, quarters of a µs, an integer: every sum is exact
  State   the TAT; 0 when never written
]]
local function judge(key, policy, now, n)
  local read = redis.pcall('GET', key)
  local tat = 0
  if read then
    if read.err then return nil, read.err end
    tat = tonumber(read)
    if not (tat and tat >= 0 and tat < 2 ^ 53) then return nil, 'BROKEN' end
  end
  if policy.cost == 0 then return n, tat end
  local ahead = math.max(0, tat - now * 4)
  return (policy.a * policy.b - ahead) / (policy.cost * policy.b), tat
end

local function write(key, tat)
  -- As text: Redis 7.0 is slow at writing a number. It is below 2^53, so %d loses nothing.
  keep(key, tat / 4, string.format('%d', tat))
  return tat
end

local function charge(key, policy, now, units, tat)
  return write(key, math.max(tat, now * 4) + units * policy.b)
end

-- A TAT further ahead than an empty bucket in full debt has it: as if the burst had come just now.
local function mend(key, policy, now, tat)
  local far = tat - now * 4 > policy.lifetime * 4
  if not far and goes_in_time(key, policy, now) then return tat end
  return write(key, far and now * 4 + policy.a * policy.b or tat)
end

--- @only "settle"
-- Gives back what has not flowed back by itself. `mark`: the TAT after the charge.
local function credit(key, policy, now, units, mark)
  local room, tat = judge(key, policy, now, 1)
  if not room then return nil, tat end
  local more = math.min(units * policy.b, mark - now * 4)
  if more <= 0 or tat <= now * 4 then return 0 end
  redis.call('SET', key, string.format('%d', math.max(now * 4, tat - more)), 'KEEPTTL')
  return units
end
do return judge, charge, mend, 1, credit end
--- @end

return judge, charge, mend, 1
