--[[
  Sliding log: one entry per unit, so that no window of this length ever holds more than the limit.
  Twin: packages/core/src/algorithms/sliding-log.ts

  Key     sorted set: members and scores are the stamps (µs). Members are made here, never by
          the caller; a stamp is later than all before it, so no two units share one.
  Policy  a  limit, at most 1000
          b  window, µs
  State   count in the last window; stamp of the entry whose leaving makes one more unit free;
          stamp of the entry whose leaving lets this cost in, when it does not fit; newest stamp.
          0 for none.
]]

-- The stamp of the nth oldest of the `count` entries that still count.
local function stamp_of(key, count, nth)
  local found = redis.call('ZRANGE', key, nth - count - 1, nth - count - 1, 'WITHSCORES')
  return tonumber(found[2])
end

-- The stamp that a cost waits for: 0 when it fits as it is, or never will.
local function awaited(key, policy, count)
  local over = count + policy.cost - policy.a
  if over <= 0 or policy.cost > policy.a then return 0 end
  return stamp_of(key, count, over)
end

local function judge(key, policy, now, n)
  local count = redis.pcall('ZCOUNT', key, now - policy.b + 1, '+inf')
  if type(count) == 'table' then return nil, count.err end
  local room = policy.cost > 0 and (policy.a - count) / policy.cost or n
  if count == 0 then return room, 0, 0, 0, 0 end
  local newest = stamp_of(key, count, count)
  if not (newest and newest >= 0 and newest < 2 ^ 53) then return nil, 'BROKEN' end
  local one = stamp_of(key, count, math.min(count, math.max(1, count - policy.a + 1)))
  return room, count, one, awaited(key, policy, count), newest
end

local function add(key, first, units)
  local entries = {}
  for i = 0, units - 1 do
    entries[2 * i + 1] = first + i
    entries[2 * i + 2] = first + i
  end
  redis.call('ZADD', key, unpack(entries))
  return first + units - 1
end

local function charge(key, policy, now, units, count, one, _, newest)
  local first = math.max(now, newest + 1)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - policy.b)
  local last = add(key, first, units)
  keep(key, last + policy.b)
  return count + units, count > 0 and one or first, awaited(key, policy, count + units), last
end

-- Stamps further ahead than a full log in full debt can push them: as if the whole limit had come
-- just now.
local function mend(key, policy, now, count, one, asked, newest)
  if newest > now + 2 * policy.a then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', '+inf')
    local last = add(key, now, policy.a)
    keep(key, last + policy.b)
    return policy.a, now, now + policy.cost - 1, last
  end
  if not goes_in_time(key, policy, now) then keep(key, newest + policy.b) end
  return count, one, asked, newest
end

--- @only "settle"
local function credit(key, _, _, units, mark)
  local gone = redis.pcall('ZREMRANGEBYSCORE', key, mark, mark + units - 1)
  if type(gone) == 'table' then return nil, gone.err end
  return gone
end
do return judge, charge, mend, 4, credit end
--- @end

return judge, charge, mend, 4
