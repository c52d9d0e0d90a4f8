-- An algorithm's functions, and how many integers of state it reports. Only the algorithms that a
-- run asks for cost anything: a function is made anew at each run of a script, and costs most by
-- what it uses from outside itself. `room`, which judge returns, need not be whole.
local function algorithm(tag)
  if tag == 'tb' then
--- @include "algorithms/token-bucket"
  elseif tag == 'gc' then
--- @include "algorithms/gcra"
  elseif tag == 'sw' then
--- @include "algorithms/sliding-window"
  elseif tag == 'fw' then
--- @include "algorithms/fixed-window"
  elseif tag == 'sl' then
--- @include "algorithms/sliding-log"
  elseif tag == 'cc' then
--- @include "algorithms/concurrency"
  end
end
