--[[
  Token bucket: `capacity` tokens, refilled evenly.
  Twin: packages/core/src/algorithms/token-bucket.ts

  Key     hash: `tokens` (whole, or with six decimals), `ts` (µs): so many tokens were there at `ts`
  Policy  a  capacity, tokens
          b  refill, tokens per second, which is millionths of a token per µs
  State   millionths of a token; ts

  Tokens are counted in whole millionths, so that sums are exact and one more microsecond
  never takes a token away.
]]
-- Comparisons stand where math.min, max and abs could: those are calls, and this is run for every request.

local function judge(key, policy, now, n)
  local read = redis.pcall('HMGET', key, 'tokens', 'ts')
  if read.err then return nil, read.err end
  local full = policy.a * 1000000
  local micro, ts = full, now
  if read[1] or read[2] then
    micro, ts = tonumber(read[1]), tonumber(read[2])
    if not (micro and ts) then return nil, 'BROKEN' end
    micro = math.floor(micro * 1000000 + 0.5)
    -- What doubles count exactly. NaN, which a stranger may have written, compares as false.
    if not (micro > -2 ^ 53 and micro < 2 ^ 53 and ts >= 0 and ts < 2 ^ 53) then return nil, 'BROKEN' end
  end
  if policy.cost == 0 then return n, micro, ts end
  -- A `ts` ahead of the clock (it stepped back) refills nothing.
  local available = now > ts and micro + math.floor((now - ts) * policy.b) or micro
  if available > full then available = full end
  return available / (policy.cost * 1000000), micro, ts
end

local function charge(key, policy, now, units, micro, ts)
  local full = policy.a * 1000000
  if now > ts then micro = micro + math.floor((now - ts) * policy.b) end
  if micro > full then micro = full end
  micro = micro - units * 1000000
  -- With 0 units it mends: from here on no worse than empty.
  if units == 0 and micro < 0 then micro = 0 end
  -- Whole tokens are the most frequent, and shorter without decimals.
  local tokens = string.format(micro % 1000000 == 0 and '%d' or '%.6f', micro / 1000000)
  redis.call('HSET', key, 'tokens', tokens, 'ts', string.format('%d', now))
  -- Whole µs: beside a time of 16 digits, doubles keep no fraction.
  local us = math.ceil((full - micro) / policy.b)
  keep(key, now + (us > 1 and us or 1))
  return micro, now
end

local function mend(key, policy, now, micro, ts)
  if ts <= now and goes_in_time(key, policy, now) then return micro, ts end
  return charge(key, policy, now, 0, micro, ts)
end

--- @only "settle"
-- Gives back what has not flowed back by itself. `mark`: when the bucket would have been full again
-- after the charge. Two millionths more make up for what rounding took on the way.
local function credit(key, policy, now, units, mark)
  local room, micro = judge(key, policy, now, 1)
  if not room then return nil, micro end
  local full, more = policy.a * 1000000, math.min(units * 1000000, math.ceil((mark - now) * policy.b) + 2)
  if mark <= now or micro >= full then return 0 end
  redis.call('HSET', key, 'tokens', string.format('%.6f', math.min(full, micro + more) / 1000000))
  return units
end
do return judge, charge, mend, 2, credit end
--- @end

return judge, charge, mend, 2
