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
-- Millionths of a token at `now`. A `ts` ahead of the clock (it stepped back) refills nothing.
local function judge(key, policy, now, n)
  local read = redis.pcall('HMGET', key, 'tokens', 'ts')
  if read.err then return nil, read.err end
  local full = policy.a * 1000000
  local micro, ts = full, now
  if read[1] or read[2] then
    local tokens = tonumber(read[1])
    ts = tonumber(read[2])
    -- What doubles count exactly. NaN, which a stranger may have written, compares as false.
    if not (ts and ts >= 0 and ts < 2 ^ 53 and tokens and math.abs(tokens) * 1000000 < 2 ^ 53) then return nil, 'BROKEN' end
    micro = math.floor(tokens * 1000000 + 0.5)
  end
  if policy.cost == 0 then return n, micro, ts end
  local elapsed = now > ts and now - ts or 0
  return math.min(full, micro + math.floor(elapsed * policy.b)) / (policy.cost * 1000000), micro, ts
end

local function charge(key, policy, now, units, micro, ts)
  local full = policy.a * 1000000
  local elapsed = now > ts and now - ts or 0
  micro = math.min(full, micro + math.floor(elapsed * policy.b)) - units * 1000000
  -- With 0 units it mends: from here on no worse than empty.
  if units == 0 and micro < 0 then micro = 0 end
  -- Whole tokens are the most frequent, and shorter without decimals.
  local tokens = string.format(micro % 1000000 == 0 and '%d' or '%.6f', micro / 1000000)
  redis.call('HSET', key, 'tokens', tokens, 'ts', string.format('%d', now))
  keep(key, math.max(1, (full - micro) / policy.b))
  return micro, now
end

local function mend(key, policy, now, micro, ts)
  if ts <= now and goes_in_time(key, policy) then return micro, ts end
  return charge(key, policy, now, 0, micro, ts)
end

return judge, charge, mend, 2
