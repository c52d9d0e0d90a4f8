// Made from lua/settle.lua by `pnpm lua`. Edit that file, not this one.
export const settle = {
  sha: "01b92f52ab5f260f0b363298c11f9cf869aefd1d",
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
local function credit(key, policy, now, units, mark)
  local room, micro = judge(key, policy, now, 1)
  if not room then return nil, micro end
  local full, more = policy.a * 1000000, math.min(units * 1000000, math.ceil((mark - now) * policy.b) + 2)
  if mark <= now or micro >= full then return 0 end
  redis.call('HSET', key, 'tokens', string.format('%.6f', math.min(full, micro + more) / 1000000))
  return units
end
do return judge, charge, mend, 2, credit end
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
local function credit(key, policy, now, units, mark)
  local room, tat = judge(key, policy, now, 1)
  if not room then return nil, tat end
  local more = math.min(units * policy.b, mark - now * 4)
  if more <= 0 or tat <= now * 4 then return 0 end
  redis.call('SET', key, string.format('%d', math.max(now * 4, tat - more)), 'KEEPTTL')
  return units
end
do return judge, charge, mend, 1, credit end
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
local function credit(key, policy, now, units, mark)
  local room, current, previous = judge(key, policy, now, 1)
  local number = (now - now % policy.b) / policy.b % 2 ^ 32
  if not room then return nil, current end
  if previous < 0 then return 0 end
  local given
  if mark == number then
    given = math.min(units, current)
    current = current - given
  elseif mark == (number - 1) % 2 ^ 32 then
    given = math.min(units, previous)
    previous = previous - given
  end
  if not given or given == 0 then return 0 end
  redis.call('SET', key, struct.pack('<I4I4I4', number, current, previous), 'KEEPTTL')
  return given
end
do return judge, charge, mend, 2, credit end
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
local function credit(key, policy, now, units, mark)
  local room, count, rest = judge(key, policy, now, 1)
  if not room then return nil, count end
  if rest <= 0 or count == 0 or math.abs(now + rest - mark) > 2 * rounding then return 0 end
  redis.call('DECRBY', key, math.min(units, count))
  return math.min(units, count)
end
do return judge, charge, mend, 2, credit end
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
local function credit(key, _, _, units, mark)
  local gone = redis.pcall('ZREMRANGEBYSCORE', key, mark, mark + units - 1)
  if type(gone) == 'table' then return nil, gone.err end
  return gone
end
do return judge, charge, mend, 4, credit end
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
local function credit(key, policy, now, units, _, lease)
  local gone = 0
  for i = 1, units do
    local removed = redis.pcall('ZREM', key, member(lease, i))
    if type(removed) == 'table' then return nil, removed.err end
    gone = gone + removed
  end
  return gone
end
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
return judge, charge, mend, 2
  end
end
if ARGV[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version 1') end
local tables, items = ARGV[2] + 0, ARGV[3] + 0
local at = 5
local policies = {}
for i = 1, tables do
  local judge, charge, _, _, credit, renew = algorithm(ARGV[at])
  if not judge then return redis.error_reply('TGALGORITHM unknown algorithm in policy table ' .. i) end
  policies[i] = {
    cost = 1,
    lifetime = ARGV[at + 1] + 0,
    a = ARGV[at + 2] + 0,
    b = ARGV[at + 3] + 0,
    c = ARGV[at + 4] ~= '0' and ARGV[at + 4] + 0 or nil,
    judge = judge,
    charge = charge,
    credit = credit,
    renew = renew,
  }
  at = at + 5
end
local now = clock()
local nonce, again
if ARGV[4] ~= '' then
  nonce = KEYS[items + 1]
  again = redis.pcall('GET', nonce) and true
end
local function debit(key, policy, units, lease)
  local room, s1, s2, s3, s4 = policy.judge(key, policy, now, 1, lease)
  if not room then return nil, s1 end
  units = math.min(units, math.max(0, math.floor(room) + policy.a))
  if units > 0 then policy.charge(key, policy, now, units, s1, s2, s3, s4, lease) end
  return units
end
local reply = { 1, now }
for i = 1, items do
  local op, policy, units = ARGV[at], policies[ARGV[at + 1] + 0], ARGV[at + 2] + 0
  local mark, lease = tonumber(ARGV[at + 3]), ARGV[at + 4]
  local moved, problem
  if again then
    moved = 0
  elseif op == 'c' then
    moved, problem = policy.credit(KEYS[i], policy, now, units, mark, lease)
  elseif op == 'd' then
    moved, problem = debit(KEYS[i], policy, units, lease)
  elseif op == 'r' and policy.renew then
    moved, problem = policy.renew(KEYS[i], policy, now, units, lease)
  end
  reply[i + 2] = moved or problem and class_of(problem) or FLAG
  at = at + 5
end
if nonce and not again then keep(nonce, now - now % 1000 + ARGV[4], '1') end
return reply
`,
};
