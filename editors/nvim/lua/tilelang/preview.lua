-- Generated source in buffers named tilelang-cuda:///<file>/<kernel>.cu: fills them, keeps them fresh while the kernel
-- changes, and marks the lines of Python and generated source that belong together.

local client = require('tilelang.client')

local M = {}

local FILETYPES = { cuda = 'cuda', hip = 'cpp', metal = 'cpp', cpu = 'llvm' }
M.targets = { 'cuda', 'hip', 'metal', 'cpu' }

local marks = vim.api.nvim_create_namespace('tilelang-linked-lines')

---@class tilelang.Preview
---@field path string absolute path of the Python file
---@field kernel string
---@field target string
---@field map integer[] per generated line the Python line it came from, from 1; 0 for none

---@type table<integer, tilelang.Preview> by buffer
local previews = {}

---@param uri string
---@return tilelang.Preview?
local function parse(uri)
  local target, path, kernel = vim.uri_decode(uri):match('^tilelang%-(%a+)://(/.+)/([^/]+)%.%a+$')
  return target and { target = target, path = path, kernel = kernel, map = {} } or nil
end

---@param preview tilelang.Preview
local function source_params(preview)
  return {
    textDocument = { uri = vim.uri_from_fname(preview.path) },
    kernel = preview.kernel,
    target = preview.target,
  }
end

---@param buffer integer
---@param text string
local function set_text(buffer, text)
  local lines = vim.split(text, '\n')
  if lines[#lines] == '' then
    table.remove(lines)
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

--- Fetches the line map of the text that a preview shows; a map of another text, or none, leaves nothing marked.
---@param server vim.lsp.Client
---@param buffer integer
local function fetch_map(server, buffer)
  local preview = previews[buffer]
  server:request('tilelang/generatedSource', source_params(preview), function(_, source)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    local shown = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
    local same = source and source.text and vim.trim(source.text) == vim.trim(shown)
    preview.map = same and source.lineMap or {}
    M.link(vim.api.nvim_get_current_win())
  end)
end

--- Fetches text and line map. The text is asked for in the standard way, because that is what makes the server say when
--- it changes; the map comes with our own request.
---@param buffer integer
---@param uri string
local function fetch(buffer, uri)
  local server = client.get()
  if not server then
    return set_text(buffer, '// no TileLang language server is running')
  end
  server:request('workspace/textDocumentContent', { uri = uri }, function(failure, content)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    if failure then
      return set_text(buffer, '// ' .. failure.message)
    end
    set_text(buffer, content.text)
    fetch_map(server, buffer)
  end)
end

--- For BufReadCmd: fills a buffer whose name is the address of generated source.
---@param buffer integer
---@param uri string
function M.read(buffer, uri)
  local preview = parse(uri)
  if not preview then
    return client.say(uri .. ' is no address of generated source', vim.log.levels.ERROR)
  end
  previews[buffer] = preview
  vim.bo[buffer].buftype = 'nofile' -- before the file type: servers for C++ must not take it for a file
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = FILETYPES[preview.target]
  fetch(buffer, uri)
end

---@param buffer integer
function M.forget(buffer)
  previews[buffer] = nil
end

--- The server says that generated source has changed.
---@param uri string
function M.changed(uri)
  local changed = parse(uri)
  for buffer, preview in pairs(previews) do
    if changed and changed.path == preview.path and changed.kernel == preview.kernel then
      if changed.target == preview.target then
        fetch(buffer, uri)
      end
    end
  end
end

--- A Python file was edited: lines may have moved where no generated text changes.
---@param path string
function M.edited(path)
  local server = client.get()
  for buffer, preview in pairs(previews) do
    if server and preview.path == path then
      fetch_map(server, buffer)
    end
  end
end

--- The loaded buffer of a file; `bufnr()` would take the name for a pattern, and find the preview by it.
---@param path string
---@return integer?
local function buffer_of(path)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) and vim.api.nvim_buf_get_name(buffer) == path then
      return buffer
    end
  end
end

--- Opens the generated source in a window beside the current one, which keeps the cursor.
---@param argument { uri: string, kernel: string, target: string } what the server's lenses carry
function M.open(argument)
  local server = client.get()
  if not server then
    return client.say('no language server is running', vim.log.levels.WARN)
  end
  local params = { textDocument = { uri = argument.uri }, kernel = argument.kernel, target = argument.target }
  server:request('tilelang/generatedSource', params, function(failure, source)
    local problem = failure and failure.message or source.error
    if problem then
      return client.say(('no %s source of %s: %s'):format(argument.target, argument.kernel, problem), vim.log.levels.WARN)
    end
    local buffer = vim.fn.bufadd(source.uri)
    vim.fn.bufload(buffer)
    vim.bo[buffer].buflisted = true
    if vim.fn.bufwinid(buffer) == -1 then
      vim.api.nvim_open_win(buffer, false, { split = 'right' })
    end
  end)
end

---@param buffer integer
---@param lines integer[] from 1
local function mark(buffer, lines)
  vim.api.nvim_buf_clear_namespace(buffer, marks, 0, -1)
  local count = vim.api.nvim_buf_line_count(buffer)
  for _, line in ipairs(lines) do
    if line <= count then
      vim.api.nvim_buf_set_extmark(buffer, marks, line - 1, 0, { line_hl_group = 'TileLangLinked' })
    end
  end
end

--- Brings a line into view without moving the focus.
---@param buffer integer
---@param line integer? from 1
local function reveal(buffer, line)
  local window = vim.fn.bufwinid(buffer)
  if line and window ~= -1 and line <= vim.api.nvim_buf_line_count(buffer) then
    vim.api.nvim_win_set_cursor(window, { line, 0 })
  end
end

--- Marks what belongs to the cursor's line of a window, in the other buffer and in its own.
---@param window integer
function M.link(window)
  local buffer = vim.api.nvim_win_get_buf(window)
  local cursor = vim.api.nvim_win_get_cursor(window)[1]
  local own = previews[buffer]
  if own then
    local python = buffer_of(own.path)
    local line = own.map[cursor] or 0
    if python then
      mark(python, line > 0 and { line } or {})
      reveal(python, line > 0 and line or nil)
    end
    return
  end
  local path = vim.api.nvim_buf_get_name(buffer)
  local followed = false
  for generated, preview in pairs(previews) do
    if preview.path == path then
      local lines = {}
      for index, python in ipairs(preview.map) do
        if python == cursor then
          table.insert(lines, index)
        end
      end
      mark(generated, lines)
      reveal(generated, lines[1])
      followed = true
    end
  end
  if followed then
    mark(buffer, {})
  end
end

return M
