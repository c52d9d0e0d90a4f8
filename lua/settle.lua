#!lua flags=allow-oom
--[[
  What comes after decisions: units given back, charged on top, leases renewed. Each item is of one
  key and stands for itself. The contract is lua/README.md.
]]
--- @include "shared/time"
--- @include "shared/lifetime"
--- @include "shared/reply"
--- @include "shared/algorithms"

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

-- A command that is sent twice moves units once.
local nonce, again
if ARGV[4] ~= '' then
  nonce = KEYS[items + 1]
  again = redis.pcall('GET', nonce) and true
end

-- Charges what a request turned out to cost beyond its reservation, room or not: into debt, as deep
-- as the limit at most.
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
  -- Each item stands for itself: what one of them meets keeps none of the others.
  reply[i + 2] = moved or problem and class_of(problem) or FLAG
  at = at + 5
end
if nonce and not again then keep(nonce, now - now % 1000 + ARGV[4], '1') end

return reply
