// Made from lua/decide.lua by `pnpm lua`. Edit that file, not this one.
export const decide = {
  sha: "c97a7563b7934a3304943dbd16975f2a720d2d39",
  text: `#!lua flags=allow-oom
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function keep(key, us, value)
  local ms = string.format('%d', math.ceil(us / 1000))
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
local LATE, FLAG = -1, -7
local function class_of(message)
  local FOREIGN, BROKEN, DENIED = -4, -5, -6
  local word = string.match(message, '^%S+')
  if word == 'WRONGTYPE' then return FOREIGN end
  if word == 'BROKEN' then return BROKEN end
  return DENIED
end
local function algorithm(tag)
  if tag == 'tb' then
local function judge(key, policy, now, n)
  local read = redis.pcall('HMGET', key, 'tokens', 'ts')
  if read.err then return nil, read.err end
  local full = policy.a * 1000000
  local micro, ts = full, now
  if read[1] or read[2] then
    local tokens = tonumber(read[1])
    ts = tonumber(read[2])
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
  if units == 0 and micro < 0 then micro = 0 end
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
  elseif tag == 'sw' then
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
  local free = (policy.a - current) * window - (previous > 0 and previous * (window - elapsed) or 0)
  return free / (policy.cost * window), current, previous
end
local function charge(key, policy, now, units, current, previous)
  local window = policy.b
  local elapsed = now % window
  current, previous = current + units, previous > 0 and previous or 0
  keep(key, 2 * window - elapsed, struct.pack('<I4I4I4', (now - elapsed) / window % 2 ^ 32, current, previous))
  return current, previous
end
local function mend(key, policy, now, current, previous)
  if previous >= 0 and goes_in_time(key, policy) then return current, previous end
  previous = math.max(0, previous)
  local elapsed = now % policy.b
  if previous * (policy.b - elapsed) >= (policy.a - current) * policy.b then
    current, previous = math.ceil(policy.a * elapsed / policy.b), policy.a
  end
  return charge(key, policy, now, 0, current, previous)
end
return judge, charge, mend, 2
  elseif tag == 'fw' then
local function judge(key, policy, _, n)
  local read = redis.pcall('GET', key)
  local count, rest = 0, 0
  if read then
    if read.err then return nil, read.err end
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
local args = ARGV
if args[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version ' .. VERSION) end
local tables, checks = args[3] + 0, args[4] + 0
local at = 5
local policies = {}
for i = 1, tables do
  local judge, charge, mend, words = algorithm(args[at])
  if not judge then return redis.error_reply('TGALGORITHM unknown algorithm in policy table ' .. i) end
  if args[at + 1] ~= 'e' then return redis.error_reply('TGMODE unknown mode in policy table ' .. i) end
  policies[i] = {
    cost = args[at + 2] + 0,
    lifetime = args[at + 3] + 0,
    a = args[at + 4] + 0,
    b = args[at + 5] + 0,
    judge = judge,
    charge = charge,
    mend = mend,
    words = words,
  }
  at = at + 7
end
local now = clock()
local late = args[2] ~= '' and now > args[2] + 0 and LATE
local reply, out, first_key = { VERSION, now, nil, nil, nil, nil, nil }, 3, 0
for _ = 1, checks do
  local count = args[at] + 0
  local n, flags = args[at + count + 1] + 0, args[at + count + 2]
  local failed, peek, partial = late, false, false
  if flags ~= '' then
    if string.find(flags, '[^pg]') then failed = FLAG end
    peek, partial = string.find(flags, 'p', 1, true), string.find(flags, 'g', 1, true)
  end
  local status, granted, empty = out, n, nil
  out = out + 1
  for i = 1, count do
    local policy = policies[args[at + i] + 0]
    local room, s1, s2, s3, s4
    if not failed then
      room, s1, s2, s3, s4 = policy.judge(KEYS[first_key + i], policy, now, n)
      if not room then
        failed = class_of(s1)
      elseif room < n then
        room = math.floor(room)
        if room < granted then granted = room end
        if room < 1 then
          empty = empty or {}
          empty[i] = true
        end
      end
    end
    local words = policy.words
    reply[out], reply[out + 1] = s1, s2
    if words > 2 then reply[out + 2], reply[out + 3] = s3, s4 end
    out = out + words
  end
  if granted < 0 or (granted < n and not partial) then granted = 0 end
  if failed then
    for word = status + 1, out - 1 do reply[word] = 0 end
  end
  reply[status] = failed or granted
  if not failed and not peek and (granted > 0 or empty) then
    local word = status + 1
    for i = 1, count do
      local policy = policies[args[at + i] + 0]
      local units, words = granted * policy.cost, policy.words
      local key, s1, s2, s3, s4 = KEYS[first_key + i], reply[word], reply[word + 1], reply[word + 2], reply[word + 3]
      if units > 0 then
        s1, s2, s3, s4 = policy.charge(key, policy, now, units, s1, s2, s3, s4)
      elseif empty and empty[i] and policy.cost <= policy.a then
        s1, s2, s3, s4 = policy.mend(key, policy, now, s1, s2, s3, s4)
      end
      reply[word], reply[word + 1] = s1, s2
      if words > 2 then reply[word + 2], reply[word + 3] = s3, s4 end
      word = word + words
    end
  end
  first_key = first_key + count
  at = at + count + 3
end
return reply
`,
};
