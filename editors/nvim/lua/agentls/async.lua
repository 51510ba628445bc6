-- Waiting inside a coroutine, such as those in which Neovim runs the handlers of requests.

local M = {}

---Waits until `is_done` returns true, at most until `deadline` of `vim.uv.now()`.
---@param deadline integer
---@param is_done fun(): boolean
function M.wait_until(deadline, is_done)
  local running = assert(coroutine.running(), 'not in a coroutine')
  while not is_done() and vim.uv.now() < deadline do
    vim.defer_fn(function()
      coroutine.resume(running)
    end, 20)
    coroutine.yield()
  end
end

return M
