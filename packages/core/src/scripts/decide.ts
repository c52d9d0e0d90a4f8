// Made from lua/decide.lua by `pnpm lua`. Edit that file, not this one.
export const decide = {
  sha: "d884badcd5e4a9ffc77353ac7de1852fcea5fc83",
  text: `#!lua flags=allow-oom
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function keep(key, us, value)
  local ms = math.ceil(us / 1000)
  if value then
    redis.call('PSETEX', key, ms, value)
  else
    redis.call('PEXPIRE', key, ms)
  end
end
local function left(key)
  local ms = redis.call('PTTL', key)
  if ms == -1 then return nil end
  return math.max(0, ms) * 1000
end
local function goes_in_time(key, policy)
  local us = left(key)
  return us and us <= policy.lifetime + 1000
end
local function is_count(x)
  return x and x >= 0 and x <= 9007199254740991
end
local LATE, FOREIGN, BROKEN, DENIED, FLAG = -1, -4, -5, -6, -7
local function class_of(message)
  local word = string.match(message, '^%S+')
  if word == 'WRONGTYPE' then return FOREIGN end
  if word == 'BROKEN' then return BROKEN end
  return DENIED
end
local function algorithm(tag)
  if tag == 'tb' then
local unit = 1000000
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
local function mend(key, policy, now, micro, ts)
  if ts <= now and goes_in_time(key, policy) then return micro, ts end
  return write(key, policy, now, math.max(0, at(policy, now, micro, ts)))
end
return judge, charge, mend, 2
  elseif tag == 'sw' then
local wrap = 4294967296
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
  elseif tag == 'fw' then
local function judge(key, policy, _, n)
  local read = redis.pcall('GET', key)
  local count, rest = 0, 0
  if read then
    if read.err then return nil, read.err end
    if not ((read == '0' or string.match(read, '^[1-9]%d*$')) and is_count(tonumber(read))) then return nil, 'BROKEN' end
    rest = left(key)
    if rest ~= 0 then count = tonumber(read) end
    if not rest or rest > policy.b then rest = -1 end
  end
  return policy.cost > 0 and math.floor((policy.a - count) / policy.cost) or n, count, rest
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
local function mend(key, policy, _, count, rest)
  if rest >= 0 then return count, rest end
  keep(key, policy.b)
  return count, policy.b
end
return judge, charge, mend, 2
  elseif tag == 'sl' then
local function stamp_of(key, count, nth)
  local found = redis.call('ZRANGE', key, nth - count - 1, nth - count - 1, 'WITHSCORES')
  return tonumber(found[2])
end
local function awaited(key, policy, count)
  local over = count + policy.cost - policy.a
  if over <= 0 or policy.cost > policy.a then return 0 end
  return stamp_of(key, count, over)
end
local function judge(key, policy, now, n)
  local count = redis.pcall('ZCOUNT', key, now - policy.b + 1, '+inf')
  if type(count) == 'table' then return nil, count.err end
  local room = policy.cost > 0 and math.floor((policy.a - count) / policy.cost) or n
  if count == 0 then return room, 0, 0, 0, 0 end
  local newest = stamp_of(key, count, count)
  if not is_count(newest) then return nil, 'BROKEN' end
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
  keep(key, last + policy.b - now)
  return count + units, count > 0 and one or first, awaited(key, policy, count + units), last
end
local function mend(key, policy, now, count, one, asked, newest)
  if newest > now + policy.a then
    redis.call('DEL', key)
    local last = add(key, now, policy.a)
    keep(key, last + policy.b - now)
    return policy.a, now, now + policy.cost - 1, last
  end
  if not goes_in_time(key, policy) then keep(key, newest + policy.b - now) end
  return count, one, asked, newest
end
return judge, charge, mend, 4
  end
end
local VERSION = 1
if ARGV[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version ' .. VERSION) end
local deadline, tables, checks = tonumber(ARGV[2]), ARGV[3] + 0, ARGV[4] + 0
local at = 5
local policies = {}
for i = 1, tables do
  local judge, charge, mend, words = algorithm(ARGV[at])
  if not judge then return redis.error_reply('TGALGORITHM unknown algorithm in policy table ' .. i) end
  if ARGV[at + 1] ~= 'e' then return redis.error_reply('TGMODE unknown mode in policy table ' .. i) end
  policies[i] = {
    cost = ARGV[at + 2] + 0,
    lifetime = ARGV[at + 3] + 0,
    a = ARGV[at + 4] + 0,
    b = ARGV[at + 5] + 0,
    judge = judge,
    charge = charge,
    mend = mend,
    words = words,
  }
  at = at + 7
end
local now = clock()
local late = deadline and now > deadline and LATE
local reply, out, first_key = { VERSION, now }, 3, 0
local function report(word, words, s1, s2, s3, s4)
  reply[word], reply[word + 1] = s1, s2
  if words > 2 then reply[word + 2], reply[word + 3] = s3, s4 end
end
for _ = 1, checks do
  local count = ARGV[at] + 0
  local n, flags = ARGV[at + count + 1] + 0, ARGV[at + count + 2]
  local failed, peek, partial = late, false, false
  if flags ~= '' then
    if string.find(flags, '[^pg]') then failed = FLAG end
    peek, partial = string.find(flags, 'p', 1, true), string.find(flags, 'g', 1, true)
  end
  local status, granted, empty = out, n, nil
  out = out + 1
  for i = 1, count do
    local policy = policies[ARGV[at + i] + 0]
    local room, s1, s2, s3, s4
    if not failed then
      room, s1, s2, s3, s4 = policy.judge(KEYS[first_key + i], policy, now, n)
      if not room then
        failed = class_of(s1)
      elseif room < n then
        if room < granted then granted = room end
        if room < 1 then
          empty = empty or {}
          empty[i] = true
        end
      end
    end
    report(out, policy.words, s1, s2, s3, s4)
    out = out + policy.words
  end
  if granted < 0 or (granted < n and not partial) then granted = 0 end
  if failed then
    for word = status + 1, out - 1 do reply[word] = 0 end
  end
  reply[status] = failed or granted
  local word = status + 1
  for i = 1, failed and 0 or peek and 0 or count do
    local policy = policies[ARGV[at + i] + 0]
    local units = granted * policy.cost
    local key, s1, s2, s3, s4 = KEYS[first_key + i], reply[word], reply[word + 1], reply[word + 2], reply[word + 3]
    if units > 0 then
      report(word, policy.words, policy.charge(key, policy, now, units, s1, s2, s3, s4))
    elseif empty and empty[i] and policy.cost <= policy.a then
      report(word, policy.words, policy.mend(key, policy, now, s1, s2, s3, s4))
    end
    word = word + policy.words
  end
  first_key = first_key + count
  at = at + count + 3
end
return reply
`,
};
