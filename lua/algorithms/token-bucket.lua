--[[
  Token bucket: `capacity` tokens, refilled evenly.
  Twin: packages/core/src/algorithms/token-bucket.ts

  Key     hash: `tokens` (six decimals), `ts` (µs): so many tokens were there at `ts`
  Policy  a  capacity, tokens
          b  refill, tokens per second, which is millionths of a token per µs
  State   millionths of a token; ts

  Tokens are counted in whole millionths, so that sums are exact and one more microsecond
  never takes a token away.
]]
local unit = 1000000

-- Millionths of a token at `now`. A `ts` ahead of the clock (it stepped back) refills nothing.
local function at(policy, now, micro, ts)
  local elapsed = now > ts and now - ts or 0
  return math.min(policy.a * unit, micro + math.floor(elapsed * policy.b))
end

local function judge(key, policy, now, n)
  local read = redis.pcall('HMGET', key, 'tokens', 'ts')
  if read.err then return nil, read.err end
  local micro, ts = policy.a * unit, now
  if read[1] or read[2] then
    local tokens, stamp = tonumber(read[1]), tonumber(read[2])
    if not (is_count(stamp) and tokens and is_count(math.abs(tokens) * unit)) then return nil, 'BROKEN' end
    micro, ts = math.floor(tokens * unit + 0.5), stamp
  end
  if policy.cost == 0 then return n, micro, ts end
  return math.floor(at(policy, now, micro, ts) / (policy.cost * unit)), micro, ts
end

local function write(key, policy, now, micro)
  redis.call('HSET', key, 'tokens', string.format('%.6f', micro / unit), 'ts', now)
  keep(key, math.max(1, (policy.a * unit - micro) / policy.b))
  return micro, now
end

local function charge(key, policy, now, units, micro, ts)
  return write(key, policy, now, at(policy, now, micro, ts) - units * unit)
end

-- From here on no worse than empty, and of this moment.
local function mend(key, policy, now, micro, ts)
  if ts <= now and goes_in_time(key, policy) then return micro, ts end
  return write(key, policy, now, math.max(0, at(policy, now, micro, ts)))
end

return judge, charge, mend, 2
