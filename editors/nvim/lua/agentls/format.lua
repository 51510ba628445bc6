-- Formats text and numbers for people, and makes text safe to show and to send. Pure: it must not use the editor.

local M = {}

---@param ms number
---@return string
function M.duration(ms)
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
function M.token_count(n)
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
function M.usd(usd)
  if usd == 0 then
    return '$0'
  end
  return usd < 0.01 and ('$%.4f'):format(usd) or ('$%.2f'):format(usd)
end

---Formats the cost of used tokens.
---@param usd? number
---@return string
function M.cost(usd)
  if not usd then
    return 'price unknown'
  end
  return usd == 0 and 'free' or M.usd(usd)
end

---@param bytes integer
---@return string
function M.byte_size(bytes)
  if bytes < 10000 then
    return bytes == 1 and '1 byte' or ('%d bytes'):format(bytes)
  elseif bytes < 10000000 then
    return ('%d KB'):format(math.floor(bytes / 1000 + 0.5))
  elseif bytes < 10000000000 then
    return ('%d MB'):format(math.floor(bytes / 1000000 + 0.5))
  end
  return ('%d GB'):format(math.floor(bytes / 1000000000 + 0.5))
end

---Patterns of the multi-byte characters, as RFC 3629 defines them and JSON requires them.
local CHARACTERS = {
  '[\225-\236\238-\239][\128-\191][\128-\191]',
  '[\194-\223][\128-\191]',
  '\224[\160-\191][\128-\191]',
  '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]',
  '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}

---Returns the length in bytes of the multi-byte character at `at`, or nil if none starts there.
local function get_character_length(text, at)
  for _, pattern in ipairs(CHARACTERS) do
    local _, last = text:find('^' .. pattern, at)
    if last then
      return last - at + 1
    end
  end
end

---Whether a text has non-ASCII bytes. LuaJIT compiles this loop; a pattern would take 30 ms per megabyte.
---@param text string
local function has_non_ascii(text)
  for i = 1, #text do
    if text:byte(i) > 127 then
      return true
    end
  end
  return false
end

---Whether a text is valid UTF-8. It makes whole passes, because documents are long.
---@param text string
function M.is_valid_utf8(text)
  if not has_non_ascii(text) then
    return true
  end
  local remaining = text
  for _, pattern in ipairs(CHARACTERS) do
    if not remaining:find('[\128-\255]') then
      return true
    end
    -- No character contains another one. The space keeps the neighbors from forming a new one.
    remaining = remaining:gsub(pattern, ' ')
  end
  return not remaining:find('[\128-\255]')
end

---Replaces each byte that is not valid UTF-8 by U+FFFD.
---@param text string
---@return string
function M.sanitize_utf8(text)
  if M.is_valid_utf8(text) then
    return text
  end
  local parts, from, at = {}, 1, text:find('[\128-\255]')
  while at do
    local length = get_character_length(text, at)
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

---Characters that are invisible or change the reading order: format controls, fillers, selectors, tags, separators.
---The server has the same table (`src/base/text.rs`).
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

---Blanks that look like a space but do not separate the words of a command.
---@type [integer, integer][]
local BLANKS = {
  { 0xa0, 0xa0 },
  { 0x1680, 0x1680 },
  { 0x2000, 0x200a },
  { 0x202f, 0x202f },
  { 0x205f, 0x205f },
  { 0x2800, 0x2800 },
}

---Joiners and selectors that emoji and many scripts require.
local ALLOWED_IN_PROSE = { [0x200c] = true, [0x200d] = true, [0xfe0e] = true, [0xfe0f] = true }

---The first bytes of the characters above. Most text contains none of them and needs no further check.
local SUSPECT = '[\194\205\216\225\226\227\239\240\243]'

---@param letter string One character in UTF-8.
---@return integer
local function decode_code_point(letter)
  local first = letter:byte()
  local code = first >= 0xf0 and first - 0xf0 or first >= 0xe0 and first - 0xe0 or first - 0xc0
  for i = 2, #letter do
    code = code * 64 + letter:byte(i) - 0x80
  end
  return code
end

---Returns the Unicode picture of a control character.
local function get_control_picture(control)
  local code = control:byte()
  return code == 127 and '\226\144\161' or '\226\144' .. string.char(128 + code)
end

local function is_in_ranges(ranges, code)
  for _, range in ipairs(ranges) do
    if code >= range[1] and code <= range[2] then
      return true
    end
  end
  return false
end

local function is_hidden(code, prose)
  if prose then
    return not ALLOWED_IN_PROSE[code] and is_in_ranges(HIDDEN, code)
  end
  return is_in_ranges(HIDDEN, code) or is_in_ranges(BLANKS, code)
end

---Writes out invisible and reordering characters (`<U+202E>`), so that nothing in the text is hidden from its reader.
---Keeps tabs and line feeds.
---@param text string
---@param prose? boolean Keeps unusual blanks, and what emoji and many scripts require. Never use it for text on which a
---user decides.
---@return string
function M.reveal_hidden(text, prose)
  if text:find('[%z\1-\8\11-\31\127]') then
    text = text:gsub('[%z\1-\8\11-\31\127]', get_control_picture)
  end
  if not text:find(SUSPECT) then
    return text
  end
  return (
    text:gsub(SUSPECT .. '[\128-\191]+', function(letter)
      local code = decode_code_point(letter)
      return is_hidden(code, prose) and ('<U+%04X>'):format(code) or nil
    end)
  )
end

---Escapes invisible and reordering characters in the strings of a JSON text. Its meaning stays the same.
---@param json string
---@return string
function M.reveal_hidden_json(json)
  return (
    json:gsub(SUSPECT .. '[\128-\191]+', function(letter)
      local code = decode_code_point(letter)
      if not is_hidden(code) then
        return nil
      elseif code < 0x10000 then
        return ('\\u%04x'):format(code)
      end
      local offset = code - 0x10000
      return ('\\u%04x\\u%04x'):format(0xd800 + math.floor(offset / 0x400), 0xdc00 + offset % 0x400)
    end)
  )
end

---Formats how long ago `at` was. Both times are in ms since the Unix epoch.
---@param at integer
---@param now integer
---@return string
function M.relative_time(at, now)
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

---Splits a text into lines. A line feed at the end does not start another line.
---@param text string
---@return string[]
function M.split_lines(text)
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

---Returns the text on one line of at most `width` bytes, with hidden characters revealed as in prose.
---@param text string
---@param width integer
---@return string
function M.single_line(text, width)
  text = M.reveal_hidden(text:gsub('%s+', ' '):gsub('^ ', ''):gsub(' $', ''), true)
  return M.truncate(text, width)
end

---Returns the first line of a text that is a web address and nothing else.
---@param text string
---@return string?
function M.find_web_address(text)
  for _, line in ipairs(M.split_lines(text)) do
    if line:find('^https?://%S+$') then
      return line
    end
  end
end

---Returns the text on one line with nothing hidden. Names of files may contain line feeds and invisible characters.
---@param text string
---@return string
function M.display_text(text)
  return M.reveal_hidden((text:gsub('%c', '␣')))
end

---Splits a line into pieces of at most `width` columns, after blanks where possible. Loses no character.
---@param line string
---@param width integer
---@param get_width fun(letter: string): integer Returns the columns of a character.
---@return string[]
function M.split_columns(line, width, get_width)
  local segments, from, at, used_columns, blank, after_blank = {}, 1, 1, 0, nil, 0
  while at <= #line do
    local length = line:byte(at) < 0x80 and 1 or get_character_length(line, at) or 1
    local letter = line:sub(at, at + length - 1)
    local columns = length == 1 and letter ~= '\t' and 1 or get_width(letter)
    if used_columns + columns > width and at > from then
      -- A break far from the edge would waste the line.
      local last = blank and blank - from >= width / 2 and blank or at - 1
      segments[#segments + 1] = line:sub(from, last)
      used_columns = last == blank and used_columns - after_blank or 0
      from, blank = last + 1, nil
    end
    used_columns = used_columns + columns
    at = at + length
    if letter == ' ' then
      blank, after_blank = at - 1, used_columns
    end
  end
  segments[#segments + 1] = line:sub(from)
  return segments
end

---Returns the files sorted by path.
---@generic F: { path: string }
---@param files F[]
---@return F[]
function M.sort_by_path(files)
  local sorted_files = {}
  for i, file in ipairs(files) do
    sorted_files[i] = file
  end
  table.sort(sorted_files, function(a, b)
    return a.path < b.path
  end)
  return sorted_files
end

---Truncates a text to `width` bytes, between two characters.
---@param text string
---@param width integer
---@return string
function M.truncate(text, width)
  if #text <= width then
    return text
  end
  local last = width
  -- 10xxxxxx continues a character.
  while last > 0 and (text:byte(last + 1) or 0) >= 0x80 and (text:byte(last + 1) or 0) < 0xC0 do
    last = last - 1
  end
  return text:sub(1, last) .. '…'
end

---Wraps a text to lines of at most `width` characters, between words where possible.
---@param text string
---@param width integer
---@return string[]
function M.wrap_words(text, width)
  local lines, line, length = {}, '', 0
  for word in text:gmatch('%S+') do
    -- Count the bytes that start a character.
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

---Returns the Levenshtein distance.
local function edit_distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local diagonal, left = row[0], i
    row[0] = i
    for j = 1, #b do
      local substitution_cost = a:byte(i) == b:byte(j) and 0 or 1
      local cost = math.min(row[j] + 1, left + 1, diagonal + substitution_cost)
      diagonal, row[j], left = row[j], cost, cost
    end
  end
  return row[#b]
end

---Returns the name in `candidates` that the user probably meant by `name`, or nil.
---@param name string
---@param candidates string[]
---@return string?
function M.find_nearest(name, candidates)
  local best_distance, nearest
  for _, candidate in ipairs(candidates) do
    local distance = edit_distance(name:lower(), candidate:lower())
    if not best_distance or distance < best_distance then
      best_distance, nearest = distance, candidate
    end
  end
  return best_distance and best_distance <= math.max(2, math.floor(#name / 3)) and nearest or nil
end

---The notice for each decision of the agent loop that the user should know.
M.TRANSITION_TEXTS = {
  max_output_tokens_escalate = 'the answer was cut off: retrying with a larger limit',
  max_output_tokens_recovery = 'the answer was cut off: continuing it',
  collapse_drain_retry = 'the prompt was too long: left out parts of tool results',
  reactive_compact_retry = 'the prompt was too long: summarizing the history',
  image_retry = 'the picture or PDF was rejected: retrying without it',
  empty_response_retry = 'the answer was empty: retrying',
  pause_turn = 'the provider paused: continuing',
  model_fallback = 'the model was switched',
  stop_hook_blocking = 'a stop hook objected: continuing',
  token_budget_continuation = 'the token target is not reached: continuing',
  planning = 'asking the model for a plan first',
  reflection = 'asking the model to check its progress',
}

return M
