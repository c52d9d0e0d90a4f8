--[[
  Concurrency: how many are in flight. Each unit is a lease, which ends by itself when its holder
  neither gives it back nor renews it.
  Twin: packages/core/src/algorithms/concurrency.ts

  Key     sorted set: members are lease ids (`<id>` or, for the i-th further unit, `<id>+<i>`),
          scores the end of each lease, µs
  Policy  a  limit
          b  length of a lease, µs
  State   in flight; when the last of them ends at the latest, µs (0: none)
]]

-- The i-th unit of a lease.
local function member(lease, i)
  return i == 1 and lease or lease .. '+' .. string.format('%d', i)
end

local function judge(key, policy, now, n, lease)
  local held = redis.pcall('ZCOUNT', key, now + 1, '+inf')
  if type(held) == 'table' then return nil, held.err end
  local last = held > 0 and tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) or 0
  if policy.cost == 0 then return n, held, last end
  -- Asked again for a lease it holds: then it is the same request, sent twice.
  local mine = lease and redis.call('ZSCORE', key, lease)
  if mine and tonumber(mine) > now then return n, held, last end
  return (policy.a - held) / policy.cost, held, last
end

local function charge(key, policy, now, units, _, last, _, _, lease)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local ends = now + policy.b
  for i = 1, units do redis.call('ZADD', key, ends, member(lease, i)) end
  keep(key, math.max(ends, last))
  return redis.call('ZCARD', key), math.max(ends, last)
end

-- Leases that end later than any we gave: they end one lease from now.
local function mend(key, policy, now, held, last)
  if last <= now + policy.b and goes_in_time(key, policy, now) then return held, last end
  local late = redis.call('ZRANGE', key, string.format('(%.0f', now + policy.b), '+inf', 'BYSCORE')
  for i = 1, #late do redis.call('ZADD', key, now + policy.b, late[i]) end
  keep(key, now + policy.b)
  return held, math.min(last, now + policy.b)
end

--- @only "settle"
-- Gives leases back.
local function credit(key, policy, now, units, _, lease)
  local gone = 0
  for i = 1, units do
    local removed = redis.pcall('ZREM', key, member(lease, i))
    if type(removed) == 'table' then return nil, removed.err end
    gone = gone + removed
  end
  return gone
end

-- Makes a lease last from now on. One that has ended is gone: its place may be another's.
local function renew(key, policy, now, units, lease)
  local ends, held = now + policy.b, 0
  for i = 1, units do
    local last = redis.pcall('ZSCORE', key, member(lease, i))
    if type(last) == 'table' then return nil, last.err end
    if last and tonumber(last) > now then
      redis.call('ZADD', key, ends, member(lease, i))
      held = held + 1
    end
  end
  if held > 0 then keep(key, ends) end
  return held
end
do return judge, charge, mend, 2, credit, renew end
--- @end

return judge, charge, mend, 2
