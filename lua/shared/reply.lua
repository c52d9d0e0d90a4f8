-- What a check's status says when it is not a number of grants: lua/README.md has the table.
local FLAG = -7

-- The class of what a read met, by the first word of the server's message or of ours.
local function class_of(message)
  local BOUNDS, FOREIGN, BROKEN, DENIED = -3, -4, -5, -6
  local word = string.match(message, '^%S+')
  if word == 'WRONGTYPE' then return FOREIGN end
  if word == 'BROKEN' then return BROKEN end
  if word == 'BOUNDS' then return BOUNDS end
  return DENIED
end
