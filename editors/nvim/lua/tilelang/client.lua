-- The running language server, and which of a file's kernels the cursor is in.

local M = {}

--- The client for a buffer, or any of them for a buffer without one, such as a preview.
---@param buffer integer?
---@return vim.lsp.Client?
function M.get(buffer)
  local own = buffer and vim.lsp.get_clients({ name = 'tilelang', bufnr = buffer })[1]
  return own or vim.lsp.get_clients({ name = 'tilelang' })[1]
end

---@param message string
---@param level integer?
function M.say(message, level)
  vim.notify('TileLang: ' .. message, level or vim.log.levels.INFO)
end

--- Calls `found` with the argument that the lenses of the kernel at the cursor carry for `command`. The server's lenses
--- already say where kernels begin, so nothing is parsed here.
---@param command string
---@param found fun(argument: table)
function M.with_kernel_at_cursor(command, found)
  local buffer = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ name = 'tilelang', bufnr = buffer })[1]
  if not client then
    return M.say('no language server is attached to this buffer', vim.log.levels.WARN)
  end
  local cursor = vim.api.nvim_win_get_cursor(0)[1] - 1
  local params = { textDocument = vim.lsp.util.make_text_document_params(buffer) }
  client:request('textDocument/codeLens', params, function(failure, lenses)
    if failure then
      return M.say(failure.message, vim.log.levels.ERROR)
    end
    local chosen
    for _, lens in ipairs(lenses or {}) do
      local line = lens.range.start.line
      if lens.command and lens.command.command == command then
        -- The nearest above the cursor, else the first of the file.
        if not chosen or (line <= cursor and line > chosen.line) then
          chosen = { line = line, argument = lens.command.arguments[1] }
        end
      end
    end
    if not chosen then
      return M.say('there is no kernel in this file', vim.log.levels.WARN)
    end
    found(chosen.argument)
  end, buffer)
end

return M
