-- Run & assert: starts the kernel at the cursor, and says how a run ended.

local client = require('tilelang.client')

local M = {}

--- The last result, as docs/protocol.md describes it, for status lines and scripts.
---@type table?
M.last = nil

function M.at_cursor()
  client.with_kernel_at_cursor('tilelang.runAndAssert', function(argument)
    local server = client.get(0)
    if server then
      server:exec_cmd({ title = 'Run', command = 'tilelang.runAndAssert', arguments = { argument } }, { bufnr = 0 })
    end
  end)
end

---@param value any
---@return boolean
local function given(value)
  return value ~= nil and value ~= vim.NIL
end

--- One line for people.
---@param result table
---@return string
function M.summary(result)
  if given(result.error) then
    return ('%s: %s'):format(result.kernel, vim.split(result.error, '\n')[1])
  end
  local verdict = result.passed and 'matches' or 'differs from'
  local reference = given(result.reference) and result.reference or 'its reference'
  local text = ('%s: %s %s on %s'):format(result.kernel, verdict, reference, result.device)
  for _, case in ipairs(result.cases) do
    if not case.passed then
      return ('%s, %d of %d elements differ'):format(text, case.mismatched, case.total)
    end
  end
  return given(result.latency_ms) and ('%s, %.4g ms'):format(text, result.latency_ms) or text
end

---@param result table
function M.finished(result)
  M.last = result
  client.say(M.summary(result), result.passed and vim.log.levels.INFO or vim.log.levels.ERROR)
  vim.api.nvim_exec_autocmds('User', { pattern = 'TileLangRunFinished', data = result })
end

return M
