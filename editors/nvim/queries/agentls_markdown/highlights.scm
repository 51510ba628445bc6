; Highlights the chat's Markdown. Neovim's own query hides the lines of fences (conceal_lines). With it, Neovim parses
; the whole buffer at every change: 30 ms in a chat of 2,500 lines.

(atx_heading) @markup.heading
(setext_heading) @markup.heading

[
  (list_marker_minus)
  (list_marker_plus)
  (list_marker_star)
  (list_marker_dot)
  (list_marker_parenthesis)
] @markup.list

(task_list_marker_checked) @markup.list.checked
(task_list_marker_unchecked) @markup.list.unchecked

(block_quote) @markup.quote
(thematic_break) @punctuation.special
(pipe_table_header) @markup.heading
(pipe_table_delimiter_row) @punctuation.special

((fenced_code_block_delimiter) @conceal
  (#set! conceal ""))

(info_string) @comment
