#!lua flags=allow-oom
--[[
  What people do by hand: forget what was counted, block, unblock; and grants that are taken back. The
  contract is lua/README.md.

  KEYS     the keys to forget, one block key, or the nonce keys
  ARGV[1]  contract version
  ARGV[2]  reset | block | unblock | revoke
  ARGV[3]  block: for how long, µs, or empty for ever
  ARGV[4]  block: the reason, text
  Reply    contract version; the server's clock, µs; how many keys were changed
]]
--- @include "shared/time"

if ARGV[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version 1') end

local now, changed = clock(), 0
if ARGV[2] == 'block' then
  -- A block for ever is the only key of ours that may stay.
  keep(KEYS[1], ARGV[3] ~= '' and now - now % 1000 + ARGV[3] or nil, ARGV[4])
  changed = 1
elseif ARGV[2] == 'reset' or ARGV[2] == 'unblock' then
  for i = 1, #KEYS do changed = changed + redis.call('DEL', KEYS[i]) end
elseif ARGV[2] == 'revoke' then
  -- What is no list is no grant. Whoever may only decide may not delete.
  for i = 1, #KEYS do
    if redis.call('SET', KEYS[i], '', 'XX', 'KEEPTTL') then changed = changed + 1 end
  end
else
  return redis.error_reply('TGOPERATION unknown operation')
end
return { 1, now, changed }
