-- Whether `x` is a number that doubles count exactly. NaN and infinity, which a stranger may have
-- written into a key, are not: compared with a limit they would let everything pass.
local function is_count(x)
  return x and x >= 0 and x <= 9007199254740991
end
