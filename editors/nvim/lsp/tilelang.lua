-- The language server's configuration, found by vim.lsp.enable('tilelang'); override parts with vim.lsp.config('tilelang', {...}).

---@type vim.lsp.Config
return {
  cmd = { 'tilelang-lsp' },
  filetypes = { 'python' },
  root_markers = { 'pyproject.toml', 'setup.py', '.git' },
  init_options = {
    preview = 'client', -- the preview lenses call `tilelang.preview`, see lua/tilelang/preview.lua
    generatedSourceChanged = true,
    runFinished = true,
    trusted = true,
  },
  before_init = function(params)
    -- Kernels run where the user's torch is: in the environment that Neovim was started from, unless said otherwise.
    local environment = vim.env.VIRTUAL_ENV
    local options = params.initializationOptions
    if environment and type(options) == 'table' and not options.interpreter then
      options.interpreter = environment .. '/bin/python'
    end
  end,
  handlers = {
    ['tilelang/generatedSourceChanged'] = function(_, changed)
      require('tilelang.preview').changed(changed.uri)
    end,
    ['tilelang/runFinished'] = function(_, result)
      require('tilelang.run').finished(result)
    end,
  },
}
