-- Run & assert: starts the kernel at the cursor, and keeps how a run ended. The message is the server's.

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

---@param result table
function M.finished(result)
  M.last = result
  vim.api.nvim_exec_autocmds('User', { pattern = 'TileLangRunFinished', data = result })
end

return M
