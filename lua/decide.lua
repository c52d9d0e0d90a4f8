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
--- @include "shared/algorithms"

-- A global is looked up by its name at every use; this one is used most.
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
  -- Eight fields are half the price of nine.
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
-- As long as the reply to one check of one policy: growing a table costs more than making it.
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
      -- The longest of the blocks, µs: 0 for none, -1 for ever.
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
        -- { replays, moment, granted, words … }: a grant is given again three times to whoever brings
        -- its nonce, and after that the request is charged as any other. To a client that only sends
        -- one command again and again it is given as often as it does.
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
    -- Judge. The states read go into the reply, and the writes below take them from there.
    local granted, empty, void = n, nil, nil
    for i = 1, count do
      local policy = policies[args[at + i] + 0]
      local room, s1, s2, s3, s4
      if not failed then
        room, s1, s2, s3, s4 = policy.judge(KEYS[first_key + i], policy, now, n, lease)
        if not room and policy.shadow and s1 ~= 'BOUNDS' then
          -- A limit on trial refuses nobody, whatever stands under its key. It is not charged.
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

    -- Write.
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
