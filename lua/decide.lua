#!lua flags=allow-oom
--[[
  Decides a batch of checks, each of one or more policies: all of a check's policies are charged,
  or none. The contract (ARGV, KEYS, reply) is lua/README.md.

  Every check reads first and writes last: a script has no rollback. A refused check writes
  nothing, but for the repair of a state that no run of ours could have left.
]]
--- @include "shared/time"
--- @include "shared/lifetime"
--- @include "shared/reply"

-- An algorithm's judge, charge and mend, and how many integers of state it reports. Only the
-- algorithms a batch asks for cost anything: a function is made anew at each run of a script, and
-- costs most by what it uses from outside itself. `room`, which judge returns, need not be whole.
local function algorithm(tag)
  if tag == 'tb' then
--- @include "algorithms/token-bucket"
  elseif tag == 'sw' then
--- @include "algorithms/sliding-window"
  elseif tag == 'fw' then
--- @include "algorithms/fixed-window"
  elseif tag == 'sl' then
--- @include "algorithms/sliding-log"
  end
end

local VERSION = 1
-- A global is looked up by its name at every use; this one is used most.
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
-- As long as the reply to one check of one policy: growing a table costs more than making it.
local reply, out, first_key = { VERSION, now, nil, nil, nil, nil, nil }, 3, 0

for _ = 1, checks do
  local count = args[at] + 0
  local n, flags = args[at + count + 1] + 0, args[at + count + 2]
  local failed, peek, partial = late, false, false
  if flags ~= '' then
    if string.find(flags, '[^pg]') then failed = FLAG end
    peek, partial = string.find(flags, 'p', 1, true), string.find(flags, 'g', 1, true)
  end

  -- Judge. The states read go into the reply, and the writes below take them from there.
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

  -- Write.
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
