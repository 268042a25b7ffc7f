-- Commands and automatic commands around the language server; loaded once at start-up, everything else on first use.

if vim.g.loaded_tilelang then
  return
end
vim.g.loaded_tilelang = true

local group = vim.api.nvim_create_augroup('tilelang', {})

vim.api.nvim_set_hl(0, 'TileLangLinked', { default = true, link = 'Visual' })

-- The lenses of the server carry this command, see `preview` in lsp/tilelang.lua.
vim.lsp.commands['tilelang.preview'] = function(command)
  require('tilelang.preview').open(command.arguments[1])
end

vim.api.nvim_create_user_command('TilelangPreview', function(command)
  local target = command.args ~= '' and command.args or 'cuda'
  require('tilelang.client').with_kernel_at_cursor('tilelang.preview', function(argument)
    require('tilelang.preview').open(vim.tbl_extend('force', argument, { target = target }))
  end)
end, {
  nargs = '?',
  complete = function(typed)
    return vim.tbl_filter(function(target)
      return vim.startswith(target, typed)
    end, require('tilelang.preview').targets)
  end,
  desc = 'Open the generated source of the kernel at the cursor (cuda, hip, metal or cpu)',
})

vim.api.nvim_create_user_command('TilelangRun', function()
  require('tilelang.run').at_cursor()
end, { desc = 'Run the kernel at the cursor, asserted against torch' })

vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = { 'tilelang-cuda://*', 'tilelang-hip://*', 'tilelang-metal://*', 'tilelang-cpu://*' },
  callback = function(event)
    require('tilelang.preview').read(event.buf, event.match)
  end,
})

vim.api.nvim_create_autocmd('BufWipeout', {
  group = group,
  pattern = 'tilelang-*://*',
  callback = function(event)
    require('tilelang.preview').forget(event.buf)
  end,
})

vim.api.nvim_create_autocmd('CursorMoved', {
  group = group,
  callback = function()
    -- Nothing to link, and nothing to load, before the first preview.
    local preview = package.loaded['tilelang.preview']
    if preview then
      preview.link(vim.api.nvim_get_current_win())
    end
  end,
})

vim.api.nvim_create_autocmd({ 'TextChanged', 'InsertLeave' }, {
  group = group,
  pattern = '*.py',
  callback = function(event)
    local preview = package.loaded['tilelang.preview']
    if preview then
      preview.edited(vim.api.nvim_buf_get_name(event.buf))
    end
  end,
})

vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if not client or client.name ~= 'tilelang' then
      return
    end
    local buffer = event.buf
    vim.lsp.inlay_hint.enable(true, { bufnr = buffer })
    vim.lsp.codelens.refresh({ bufnr = buffer })
    vim.api.nvim_create_autocmd({ 'BufEnter', 'InsertLeave', 'TextChanged' }, {
      group = vim.api.nvim_create_augroup('tilelang-lenses-' .. buffer, {}),
      buffer = buffer,
      callback = function()
        vim.lsp.codelens.refresh({ bufnr = buffer })
      end,
    })
  end,
})
