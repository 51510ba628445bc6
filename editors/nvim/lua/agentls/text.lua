-- Words and numbers for people. Pure: no editor.

local M = {}

---@param ms number
---@return string
function M.seconds(ms)
  if ms < 1000 then
    return ('%d ms'):format(ms)
  elseif ms < 10000 then
    return ('%.1f s'):format(ms / 1000)
  elseif ms < 120000 then
    return ('%d s'):format(math.floor(ms / 1000 + 0.5))
  end
  return ('%d min'):format(math.floor(ms / 60000 + 0.5))
end

---@param n integer
---@return string
function M.tokens(n)
  if n < 1000 then
    return tostring(n)
  elseif n < 100000 then
    return ('%.1fk'):format(n / 1000)
  elseif n < 1000000 then
    return ('%dk'):format(math.floor(n / 1000 + 0.5))
  end
  return ('%.1fM'):format(n / 1000000)
end

---@param usd number
---@return string
function M.dollars(usd)
  if usd == 0 then
    return '$0'
  end
  return usd < 0.01 and ('$%.4f'):format(usd) or ('$%.2f'):format(usd)
end

---What tokens cost that were used.
---@param usd? number
---@return string
function M.cost_of_use(usd)
  if not usd then
    return 'price unknown'
  end
  return usd == 0 and 'free' or M.dollars(usd)
end

---@param bytes integer
---@return string
function M.bytes(bytes)
  if bytes < 10000 then
    return ('%d bytes'):format(bytes)
  elseif bytes < 10000000 then
    return ('%d KB'):format(math.floor(bytes / 1000 + 0.5))
  end
  return ('%d MB'):format(math.floor(bytes / 1000000 + 0.5))
end

---The first byte of a character over 127, and what may follow it: RFC 3629, which JSON goes by.
local CHARACTERS = {
  '[\225-\236\238-\239][\128-\191][\128-\191]',
  '[\194-\223][\128-\191]',
  '\224[\160-\191][\128-\191]',
  '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]',
  '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}

---How many bytes the character has that begins at `at`; nil where none does. For bytes over 127.
local function character(text, at)
  for _, pattern in ipairs(CHARACTERS) do
    local _, last = text:find('^' .. pattern, at)
    if last then
      return last - at + 1
    end
  end
end

---Whether a text is more than ASCII. A loop is compiled; a pattern takes 30 ms for a megabyte.
---@param text string
local function is_beyond_ascii(text)
  for i = 1, #text do
    if text:byte(i) > 127 then
      return true
    end
  end
  return false
end

---Whether all of it is UTF-8 as JSON has it. Whole passes, since documents are long.
---@param text string
function M.is_legible(text)
  if not is_beyond_ascii(text) then
    return true
  end
  local rest = text
  for _, pattern in ipairs(CHARACTERS) do
    if not rest:find('[\128-\255]') then
      return true
    end
    -- No character's bytes are part of another's; what stands in their place keeps the others apart.
    rest = rest:gsub(pattern, ' ')
  end
  return not rest:find('[\128-\255]')
end

---The text with a mark in the place of each byte that is none in UTF-8.
---@param text string
---@return string
function M.legible(text)
  if M.is_legible(text) then
    return text
  end
  local parts, from, at = {}, 1, text:find('[\128-\255]')
  while at do
    local length = character(text, at)
    if not length then
      table.insert(parts, text:sub(from, at - 1))
      table.insert(parts, '\239\191\189')
      from = at + 1
    end
    at = text:find('[\128-\255]', at + (length or 1))
  end
  table.insert(parts, text:sub(from))
  return table.concat(parts)
end

---Characters that show nothing or change the reading order: format controls, fillers, selectors, tags, separators. The
---server has the same table (`src/base/text.rs`).
---@type [integer, integer][]
local HIDDEN = {
  { 0x80, 0x9f },
  { 0xad, 0xad },
  { 0x34f, 0x34f },
  { 0x61c, 0x61c },
  { 0x115f, 0x1160 },
  { 0x17b4, 0x17b5 },
  { 0x180b, 0x180f },
  { 0x200b, 0x200f },
  { 0x2028, 0x202e },
  { 0x2060, 0x206f },
  { 0x3164, 0x3164 },
  { 0xfe00, 0xfe0f },
  { 0xfeff, 0xfeff },
  { 0xffa0, 0xffa0 },
  { 0xfff0, 0xfffb },
  { 0x13430, 0x1343f },
  { 0x16fe4, 0x16fe4 },
  { 0x1bca0, 0x1bca3 },
  { 0x1d159, 0x1d159 },
  { 0x1d173, 0x1d17a },
  { 0xe0000, 0xe0fff },
}

---Blanks that look like a space, and part no words of a command.
---@type [integer, integer][]
local BLANKS = {
  { 0xa0, 0xa0 },
  { 0x1680, 0x1680 },
  { 0x2000, 0x200a },
  { 0x202f, 0x202f },
  { 0x205f, 0x205f },
  { 0x2800, 0x2800 },
}

---Joiners and selectors that emoji and many scripts need.
local IN_PROSE = { [0x200c] = true, [0x200d] = true, [0xfe0e] = true, [0xfe0f] = true }

---The first bytes of the characters above: most text has none, and is not looked at further.
local SUSPECT = '[\194\205\216\225\226\227\239\240\243]'

---The code point of one character in UTF-8.
---@param letter string
---@return integer
local function code_point(letter)
  local first = letter:byte()
  local code = first >= 0xf0 and first - 0xf0 or first >= 0xe0 and first - 0xe0 or first - 0xc0
  for i = 2, #letter do
    code = code * 64 + letter:byte(i) - 0x80
  end
  return code
end

---The control characters but tab and line feed, by the pictures that Unicode has for them.
local function picture(control)
  local code = control:byte()
  return code == 127 and '\226\144\161' or '\226\144' .. string.char(128 + code)
end

local function is_in(ranges, code)
  for _, range in ipairs(ranges) do
    if code >= range[1] and code <= range[2] then
      return true
    end
  end
  return false
end

local function is_hidden(code, prose)
  if prose then
    return not IN_PROSE[code] and is_in(HIDDEN, code)
  end
  return is_in(HIDDEN, code) or is_in(BLANKS, code)
end

---The text with invisible and reordering characters written out (`<U+202E>`), so that a person reads what is there.
---Tabs and line feeds stay.
---@param text string
---@param prose? boolean Keeps what emoji and many scripts need, and odd blanks; never for what a person decides on.
---@return string
function M.reveal(text, prose)
  if text:find('[%z\1-\8\11-\31\127]') then
    text = text:gsub('[%z\1-\8\11-\31\127]', picture)
  end
  if not text:find(SUSPECT) then
    return text
  end
  return (
    text:gsub(SUSPECT .. '[\128-\191]+', function(letter)
      local code = code_point(letter)
      return is_hidden(code, prose) and ('<U+%04X>'):format(code) or nil
    end)
  )
end

---JSON whose strings have invisible and reordering characters as escapes: it means the same, and shows them.
---@param json string
---@return string
function M.reveal_json(json)
  return (
    json:gsub(SUSPECT .. '[\128-\191]+', function(letter)
      local code = code_point(letter)
      if not is_hidden(code) then
        return nil
      elseif code < 0x10000 then
        return ('\\u%04x'):format(code)
      end
      local rest = code - 0x10000
      return ('\\u%04x\\u%04x'):format(0xd800 + math.floor(rest / 0x400), 0xdc00 + rest % 0x400)
    end)
  )
end

---How long ago `at` was; both in ms since the Unix epoch.
---@param at integer
---@param now integer
---@return string
function M.ago(at, now)
  local minutes = math.floor((now - at) / 60000)
  if minutes < 1 then
    return 'now'
  elseif minutes < 60 then
    return ('%d min ago'):format(minutes)
  elseif minutes < 48 * 60 then
    return ('%d h ago'):format(math.floor(minutes / 60))
  end
  return ('%d days ago'):format(math.floor(minutes / 1440))
end

---The lines of a text; a line feed at its end begins no line.
---@param text string
---@return string[]
function M.lines(text)
  local lines, from = {}, 1
  while true do
    local at = text:find('\n', from, true)
    if not at then
      break
    end
    local last = text:byte(at - 1) == 13 and at > from and at - 2 or at - 1
    lines[#lines + 1] = text:sub(from, last)
    from = at + 1
  end
  if from <= #text then
    lines[#lines + 1] = text:sub(from)
  end
  return lines
end

---On one line, revealed as prose, at most `width` bytes, cut between characters.
---@param text string
---@param width integer
---@return string
function M.one_line(text, width)
  text = M.reveal(text:gsub('%s+', ' '):gsub('^ ', ''):gsub(' $', ''), true)
  return M.cut(text, width)
end

---A name as it can be shown: names of files may hold line feeds, and characters that nobody sees.
---@param name string
---@return string
function M.visible(name)
  return M.reveal((name:gsub('%c', '␣')))
end

---A line in pieces of at most `width` columns, which together are the line; broken after blanks where that can be.
---@param line string
---@param width integer
---@param columns fun(letter: string): integer How wide a character is.
---@return string[]
function M.pieces(line, width, columns)
  local pieces, from, at, used, blank, after_blank = {}, 1, 1, 0, nil, 0
  while at <= #line do
    local length = line:byte(at) < 0x80 and 1 or character(line, at) or 1
    local letter = line:sub(at, at + length - 1)
    local wide = length == 1 and letter ~= '\t' and 1 or columns(letter)
    if used + wide > width and at > from then
      -- A break far from the edge would waste the line.
      local to = blank and blank - from >= width / 2 and blank or at - 1
      pieces[#pieces + 1] = line:sub(from, to)
      used = to == blank and used - after_blank or 0
      from, blank = to + 1, nil
    end
    used = used + wide
    at = at + length
    if letter == ' ' then
      blank, after_blank = at - 1, used
    end
  end
  pieces[#pieces + 1] = line:sub(from)
  return pieces
end

---A list of files by their paths.
---@generic F: { path: string }
---@param files F[]
---@return F[]
function M.by_path(files)
  local sorted = {}
  for i, file in ipairs(files) do
    sorted[i] = file
  end
  table.sort(sorted, function(a, b)
    return a.path < b.path
  end)
  return sorted
end

---At most `width` bytes of `text`, cut between characters.
---@param text string
---@param width integer
---@return string
function M.cut(text, width)
  if #text <= width then
    return text
  end
  local last = width
  -- 10xxxxxx goes on with a character.
  while last > 0 and (text:byte(last + 1) or 0) >= 0x80 and (text:byte(last + 1) or 0) < 0xC0 do
    last = last - 1
  end
  return text:sub(1, last) .. '…'
end

---A text on lines of at most `width` characters, broken between words where that can be.
---@param text string
---@param width integer
---@return string[]
function M.wrapped(text, width)
  local lines, line, length = {}, '', 0
  for word in text:gmatch('%S+') do
    -- Bytes that do not go on with a character.
    local _, letters = word:gsub('[^\128-\191]', '')
    if length > 0 and length + 1 + letters > width then
      lines[#lines + 1] = line
      line, length = word, letters
    else
      line = length > 0 and line .. ' ' .. word or word
      length = length + letters + (length > 0 and 1 or 0)
    end
  end
  lines[#lines + 1] = line
  return lines
end

---How many changes of a letter lie between two words.
local function distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local diagonal, left = row[0], i
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j) and 0 or 1
      local best = math.min(row[j] + 1, left + 1, diagonal + same)
      diagonal, row[j], left = row[j], best, best
    end
  end
  return row[#b]
end

---The name among `known` that is nearest to `name`, when one is near enough to be meant.
---@param name string
---@param known string[]
---@return string?
function M.nearest(name, known)
  local best, nearest
  for _, candidate in ipairs(known) do
    local apart = distance(name:lower(), candidate:lower())
    if not best or apart < best then
      best, nearest = apart, candidate
    end
  end
  return best and best <= math.max(2, math.floor(#name / 3)) and nearest or nil
end

---What a person is told of a decision of the loop; of others nothing.
M.REASONS = {
  max_output_tokens_escalate = 'the answer was cut off: retrying with a larger limit',
  max_output_tokens_recovery = 'the answer was cut off: continuing it',
  collapse_drain_retry = 'the prompt was too long: dropped old tool results',
  reactive_compact_retry = 'the prompt was too long: the history is summarised',
  image_retry = 'the image was rejected: retrying without it',
  empty_response_retry = 'the answer was empty: retrying',
  pause_turn = 'the provider paused: continuing',
  model_fallback = 'the model was switched',
  stop_hook_blocking = 'a stop hook objected: asked to go on',
  token_budget_continuation = 'the token target is not reached: the agent continues',
  planning = 'asked for a plan first',
  reflection = 'asked for a progress check',
}

return M
