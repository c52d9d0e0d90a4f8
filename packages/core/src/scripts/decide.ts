// Made from lua/decide.lua by `pnpm lua`. Edit that file, not this one.
export const decide = {
  sha: "582e2ed80162731191041eb71e2a8d29e29ded34",
  text: `#!lua flags=allow-oom
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function keep(key, ends, value)
  if not ends then return redis.call('SET', key, value) end
  local ms = string.format('%d', math.ceil(ends / 1000))
  if value then
    redis.call('SET', key, value, 'PXAT', ms)
  else
    redis.call('PEXPIREAT', key, ms)
  end
end
local function left(key, now)
  local ms = redis.call('PEXPIRETIME', key)
  if ms == -1 then return nil end
  return math.max(0, ms * 1000 - now)
end
local function goes_in_time(key, policy, now)
  local us = left(key, now)
  return us and us <= policy.lifetime + 1000
end
local FLAG = -7
local function class_of(message)
  local BOUNDS, FOREIGN, BROKEN, DENIED = -3, -4, -5, -6
  local word = string.match(message, '^%S+')
  if word == 'WRONGTYPE' then return FOREIGN end
  if word == 'BROKEN' then return BROKEN end
  if word == 'BOUNDS' then return BOUNDS end
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
    micro, ts = tonumber(read[1]), tonumber(read[2])
    if not (micro and ts) then return nil, 'BROKEN' end
    micro = math.floor(micro * 1000000 + 0.5)
    if not (micro > -2 ^ 53 and micro < 2 ^ 53 and ts >= 0 and ts < 2 ^ 53) then return nil, 'BROKEN' end
  end
  if policy.cost == 0 then return n, micro, ts end
  local available = now > ts and micro + math.floor((now - ts) * policy.b) or micro
  if available > full then available = full end
  return available / (policy.cost * 1000000), micro, ts
end
local function charge(key, policy, now, units, micro, ts)
  local full = policy.a * 1000000
  if now > ts then micro = micro + math.floor((now - ts) * policy.b) end
  if micro > full then micro = full end
  micro = micro - units * 1000000
  if units == 0 and micro < 0 then micro = 0 end
  local tokens = string.format(micro % 1000000 == 0 and '%d' or '%.6f', micro / 1000000)
  redis.call('HSET', key, 'tokens', tokens, 'ts', string.format('%d', now))
  local us = math.ceil((full - micro) / policy.b)
  keep(key, now + (us > 1 and us or 1))
  return micro, now
end
local function mend(key, policy, now, micro, ts)
  if ts <= now and goes_in_time(key, policy, now) then return micro, ts end
  return charge(key, policy, now, 0, micro, ts)
end
return judge, charge, mend, 2
  elseif tag == 'gc' then
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
  keep(key, tat / 4, string.format('%d', tat))
  return tat
end
local function charge(key, policy, now, units, tat)
  return write(key, math.max(tat, now * 4) + units * policy.b)
end
local function mend(key, policy, now, tat)
  local far = tat - now * 4 > policy.lifetime * 4
  if not far and goes_in_time(key, policy, now) then return tat end
  return write(key, far and now * 4 + policy.a * policy.b or tat)
end
return judge, charge, mend, 1
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
  keep(key, now - elapsed + 2 * window, struct.pack('<I4I4I4', (now - elapsed) / window % 2 ^ 32, current, previous))
  return current, previous
end
local function mend(key, policy, now, current, previous)
  if previous >= 0 and goes_in_time(key, policy, now) then return current, previous end
  previous = math.max(0, previous)
  local elapsed = now % policy.b
  if previous * (policy.b - elapsed) >= (policy.a - current) * policy.b then
    current, previous = math.ceil(policy.a * elapsed / policy.b), policy.a
  end
  return charge(key, policy, now, 0, current, previous)
end
return judge, charge, mend, 2
  elseif tag == 'fw' then
local rounding = 1000
local function length(policy, now)
  if not policy.c then return policy.b - now % 1000 end
  if policy.c < 0 then return policy.b - now % policy.b end
  return now >= policy.b and now < policy.c and policy.c - now or nil
end
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
  keep(key, last + policy.b)
  return count + units, count > 0 and one or first, awaited(key, policy, count + units), last
end
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
return judge, charge, mend, 4
  elseif tag == 'cc' then
local function member(lease, i)
  return i == 1 and lease or lease .. '+' .. string.format('%d', i)
end
local function judge(key, policy, now, n, lease)
  local held = redis.pcall('ZCOUNT', key, now + 1, '+inf')
  if type(held) == 'table' then return nil, held.err end
  local last = held > 0 and tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) or 0
  if policy.cost == 0 then return n, held, last end
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
local function mend(key, policy, now, held, last)
  if last <= now + policy.b and goes_in_time(key, policy, now) then return held, last end
  local late = redis.call('ZRANGE', key, string.format('(%.0f', now + policy.b), '+inf', 'BYSCORE')
  for i = 1, #late do redis.call('ZADD', key, now + policy.b, late[i]) end
  keep(key, now + policy.b)
  return held, math.min(last, now + policy.b)
end
return judge, charge, mend, 2
  end
end
local args = ARGV
if args[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version 1') end
local LATE, BLOCKED = -1, -2
local tables, checks = args[3] + 0, args[4] + 0
local at = 5
local policies = {}
for i = 1, tables do
  local judge, charge, mend, words = algorithm(args[at])
  if not judge then return redis.error_reply('TGALGORITHM unknown algorithm in policy table ' .. i) end
  local mode = args[at + 1]
  if mode ~= 'e' and mode ~= 's' then return redis.error_reply('TGMODE unknown mode in policy table ' .. i) end
  local policy = {
    cost = args[at + 2] + 0,
    lifetime = args[at + 3] + 0,
    a = args[at + 4] + 0,
    b = args[at + 5] + 0,
    judge = judge,
    charge = charge,
    mend = mend,
    words = words,
  }
  if args[at + 6] ~= '0' then policy.c = args[at + 6] + 0 end
  if mode == 's' then policy.shadow = true end
  policies[i] = policy
  at = at + 7
end
local now = clock()
local late = args[2] ~= '' and now > args[2] + 0 and LATE
local reply, out, first_key = { 1, now, nil, nil, nil, nil, nil }, 3, 0
for _ = 1, checks do
  local count = args[at] + 0
  local n, flags = args[at + count + 1] + 0, args[at + count + 2]
  local next_check, next_key = at + count + 3, first_key + count
  local failed, first_word = late, 0
  local peek, partial, lease, nonce, nonce_us, kept
  if flags ~= '' then
    if string.find(flags, '[^pgblir]') then failed = FLAG end
    peek, partial = string.find(flags, 'p', 1, true), string.find(flags, 'g', 1, true)
    if string.find(flags, 'b', 1, true) then
      local blocks = args[next_check] + 0
      for i = 1, failed and 0 or blocks do
        local us = left(KEYS[next_key + i], now) or -1
        if us < 0 or (first_word >= 0 and us > first_word) then first_word = us end
      end
      if first_word ~= 0 then failed = BLOCKED end
      next_check, next_key = next_check + 1, next_key + blocks
    end
    if string.find(flags, 'l', 1, true) then
      lease, next_check = args[next_check], next_check + 1
    end
    if string.find(flags, 'i', 1, true) then
      nonce, nonce_us = KEYS[next_key + 1], args[next_check] + 0
      next_check, next_key = next_check + 1, next_key + 1
      local read = not failed and redis.pcall('GET', nonce)
      if type(read) == 'string' then
        local ours, found = pcall(cmsgpack.unpack, read)
        if ours and type(found) == 'table' and #found > 3 and (found[1] < 3 or string.find(flags, 'r', 1, true)) then
          kept = found
          if not peek then
            kept[1] = kept[1] + 1
            redis.call('SET', nonce, cmsgpack.pack(kept), 'KEEPTTL')
          end
        end
      end
    end
  end
  local status = out
  out = status + (nonce and 2 or 1)
  local first = out
  if kept then
    reply[status], reply[status + 1] = kept[3], kept[2]
    for i = 4, #kept do reply[out + i - 4] = kept[i] end
    out = out + #kept - 3
  else
    local granted, empty, void = n, nil, nil
    for i = 1, count do
      local policy = policies[args[at + i] + 0]
      local room, s1, s2, s3, s4
      if not failed then
        room, s1, s2, s3, s4 = policy.judge(KEYS[first_key + i], policy, now, n, lease)
        if not room and policy.shadow and s1 ~= 'BOUNDS' then
          s1, s2, s3, s4 = 0, 0, 0, 0
          void = void or {}
          void[i] = true
        elseif not room then
          failed = class_of(s1)
        elseif room < n then
          room = math.floor(room)
          if room < granted and not policy.shadow then granted = room end
          empty = empty or {}
          empty[i] = room
        end
      end
      local words = policy.words
      reply[out] = s1
      if words > 1 then reply[out + 1] = s2 end
      if words > 2 then reply[out + 2], reply[out + 3] = s3, s4 end
      out = out + words
      if policy.shadow then
        reply[out] = room and room >= n and 1 or 0
        out = out + 1
      end
    end
    if granted < 0 or (granted < n and not partial) then granted = 0 end
    if failed then
      for word = first, out - 1 do reply[word] = 0 end
      reply[first] = first_word
    end
    reply[status] = failed or granted
    if not failed and not peek and (granted > 0 or empty) then
      local word = first
      for i = 1, count do
        local policy = policies[args[at + i] + 0]
        local key, room, words = KEYS[first_key + i], empty and empty[i], policy.words
        local units = granted * policy.cost
        if policy.shadow and (room and room < granted or void and void[i]) then units = 0 end
        local s1, s2, s3, s4 = reply[word], reply[word + 1], reply[word + 2], reply[word + 3]
        if units > 0 then
          s1, s2, s3, s4 = policy.charge(key, policy, now, units, s1, s2, s3, s4, lease)
        elseif room and room < 1 and policy.cost <= policy.a then
          s1, s2, s3, s4 = policy.mend(key, policy, now, s1, s2, s3, s4)
        end
        reply[word] = s1
        if words > 1 then reply[word + 1] = s2 end
        if words > 2 then reply[word + 2], reply[word + 3] = s3, s4 end
        word = word + words + (policy.shadow and 1 or 0)
      end
    end
    if nonce then
      reply[status + 1] = 0
      if granted > 0 and not failed and not peek then
        keep(nonce, now - now % 1000 + nonce_us, cmsgpack.pack({ 0, now, granted, unpack(reply, first, out - 1) }))
      end
    end
  end
  first_key, at = next_key, next_check
end
return reply
`,
};
