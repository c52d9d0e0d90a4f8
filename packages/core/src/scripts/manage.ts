// Made from lua/manage.lua by `pnpm lua`. Edit that file, not this one.
export const manage = {
  sha: "59d8839a2b23968cbfd1d435501539463f0b4623",
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
if ARGV[1] ~= '1' then return redis.error_reply('TGVERSION this script speaks contract version 1') end
local now, changed = clock(), 0
if ARGV[2] == 'block' then
  keep(KEYS[1], ARGV[3] ~= '' and now - now % 1000 + ARGV[3] or nil, ARGV[4])
  changed = 1
elseif ARGV[2] == 'reset' or ARGV[2] == 'unblock' then
  for i = 1, #KEYS do changed = changed + redis.call('DEL', KEYS[i]) end
elseif ARGV[2] == 'revoke' then
  for i = 1, #KEYS do
    if redis.call('SET', KEYS[i], '', 'XX', 'KEEPTTL') then changed = changed + 1 end
  end
else
  return redis.error_reply('TGOPERATION unknown operation')
end
return { 1, now, changed }
`,
};
