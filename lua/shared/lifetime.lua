-- Whether `key` goes no later than its policy can account for. One that stays for ever, or
-- longer than the policy's lifetime (µs), was not left so by us under this policy's numbers
-- and this clock.
local function goes_in_time(key, policy, now)
  local us = left(key, now)
  return us and us <= policy.lifetime + 1000
end
