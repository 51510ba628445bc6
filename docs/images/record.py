#!/usr/bin/env python3
"""Records `agentls demo` in a pseudo-terminal and writes it as an animated SVG.

    python3 docs/images/record.py [PROGRAM] > docs/images/demo.svg

PROGRAM is agentls, by default the release build. Nothing else is needed: no network, no key, no other package.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
import unicodedata
from html import escape

COLUMNS, ROWS = 96, 26
CHAR, LINE, MARGIN, BAR = 8.4, 19, 16, 30
FRAME = 0.12  # The shortest time between two frames, in seconds.
LONGEST = 2.2  # Longer pauses are cut to this.
HOLD = 5.0  # How long the last frame stays.
KEY_AFTER = 1.6  # How long the demo shows a question before `y` answers it.
TIME_LIMIT = 120

BACKGROUND, TEXT = "#1e2127", "#c8ccd4"
COLORS = {30: "#5c6370", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2",
          37: "#dcdfe4", 90: "#7f848e", 91: "#e06c75", 92: "#98c379", 93: "#e5c07b", 94: "#61afef", 95: "#c678dd",
          96: "#56b6c2", 97: "#ffffff"}
SEQUENCE = re.compile(r"\x1b(?:\[([0-9;?]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")


class Terminal:
    """As much of a terminal as the demo uses."""

    def __init__(self):
        self.lines = [[]]
        self.row = self.column = 0
        self.style = ()
        self.pending = ""

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                match = SEQUENCE.match(text, at)
                if match is None:
                    self.pending = text[at:]
                    return
                self.control(match)
                at = match.end()
                continue
            at += 1
            if char == "\n":
                self.move(self.row + 1)
            elif char == "\r":
                self.column = 0
            elif char == "\b":
                self.column = max(0, self.column - 1)
            elif char >= " ":
                self.put(char)

    def move(self, row):
        self.row = max(0, row)
        while len(self.lines) <= self.row:
            self.lines.append([])

    def put(self, char):
        if unicodedata.combining(char):
            return
        if self.column >= COLUMNS:
            self.move(self.row + 1)
            self.column = 0
        line = self.lines[self.row]
        line.extend([(" ", ())] * (self.column + 1 - len(line)))
        line[self.column] = (char, self.style)
        self.column += 1

    def control(self, match):
        arguments, final = match.group(1), match.group(2)
        if final is None or (arguments or "").startswith("?"):
            return
        numbers = [int(number or 0) for number in arguments.split(";")]
        count = max(1, numbers[0])
        if final == "m":
            self.paint(numbers)
        elif final == "A":
            self.move(self.row - count)
        elif final == "B":
            self.move(self.row + count)
        elif final == "C":
            self.column += count
        elif final == "D":
            self.column = max(0, self.column - count)
        elif final == "G":
            self.column = count - 1
        elif final == "K":
            line = self.lines[self.row]
            del line[0 if numbers[0] == 2 else self.column:]
        elif final == "J":
            del self.lines[self.row][self.column:]
            del self.lines[self.row + 1:]
        else:
            raise SystemExit(f"the demo sent a sequence that record.py does not know: {match.group()!r}")

    def paint(self, numbers):
        for number in numbers:
            if number == 0:
                self.style = ()
            elif number in (1, 2, 3, 4) or number in COLORS:
                self.style = tuple(sorted({*self.style, number}))
            elif number == 39:
                self.style = tuple(old for old in self.style if old not in COLORS)
            elif number == 22:
                self.style = tuple(old for old in self.style if old not in (1, 2))

    def screen(self):
        """The last rows, as text with styles."""
        used = len(self.lines)
        while used > 1 and not self.lines[used - 1]:
            used -= 1
        first = max(0, used - ROWS)
        return tuple(tuple(line) for line in self.lines[first:used])


def record(program):
    """Runs the demo; the screens, each with the time at which it was shown."""
    with tempfile.TemporaryDirectory() as home:
        pid, terminal = pty.fork()
        if pid == 0:
            environment = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
            os.execve(program, [program, "demo"], environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        try:
            frames = watch(terminal)
        finally:
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{program} demo failed: {os.waitstatus_to_exitcode(status)}")
    return frames


def watch(terminal):
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    screen = Terminal()
    frames, start, question_time = [], time.monotonic(), None
    while True:
        now = time.monotonic()
        if now - start > TIME_LIMIT:
            raise SystemExit("the demo did not end in time")
        if question_time is not None and now - question_time > KEY_AFTER:
            os.write(terminal, b"y")
            question_time = None
        ready, _, _ = select.select([terminal], [], [], 0.05)
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux says so when the program has ended.
            data = b""
        if not data:
            return frames
        text = decode(data)
        screen.feed(text)
        if "y allow" in SEQUENCE.sub("", text):
            question_time = time.monotonic()
        shown = screen.screen()
        at = time.monotonic() - start
        if frames and at - frames[-1][0] < FRAME:
            frames[-1] = (frames[-1][0], shown)
        elif not frames or frames[-1][1] != shown:
            frames.append((at, shown))


def line_svg(line):
    """A line as spans of one style."""
    parts, at = [], 0
    while at < len(line):
        style = line[at][1]
        end = at
        while end < len(line) and line[end][1] == style:
            end += 1
        text = "".join(char for char, _ in line[at:end])
        if text.strip():
            # Leading blanks become a position, because SVG would drop them.
            blanks = len(text) - len(text.lstrip())
            names = " ".join(f"c{number}" for number in style)
            names = f' class="{names}"' if names else ""
            x = f"{(at + blanks) * CHAR:g}"
            text = text.strip()
            # The viewer's font may be wider or narrower than ours.
            length = f'textLength="{len(text) * CHAR:g}"'
            parts.append(f'<tspan x="{x}" {length}{names}>{escape(text, quote=False)}</tspan>')
        at = end
    return "".join(parts)


def svg(frames):
    times, clock, last = [], 0.0, 0.0
    for at, _ in frames:
        clock += min(at - last, LONGEST)
        last = at
        times.append(clock)
    total = clock + HOLD
    # Each distinct line is defined once; a frame is a list of references.
    ids, definitions = {}, []
    for _, screen in frames:
        for line in screen:
            content = line_svg(line)
            if content and content not in ids:
                ids[content] = f"l{len(ids)}"
                definitions.append(f'<text id="{ids[content]}">{content}</text>')
    # A line that stays where it is from frame to frame is drawn once, with the time in which it is visible.
    spans, alive = [], {}
    for index, (_, screen) in enumerate(frames):
        now = {(row, ids[content]) for row, line in enumerate(screen) if (content := line_svg(line))}
        for key in [key for key in alive if key not in now]:
            spans.append((*key, times[alive.pop(key)], times[index]))
        for key in now:
            alive.setdefault(key, index)
    spans += [(*key, times[begin], total) for key, begin in alive.items()]
    body = []
    for row, name, begin, end in sorted(spans, key=lambda span: (span[2], span[0])):
        start, stop = begin / total, end / total
        # A first frame that begins at 0 must not repeat that time.
        steps = [("hidden", 0.0)] if start > 0 else []
        steps.append(("visible", start))
        if stop < 1:
            steps.append(("hidden", stop))
        values = ";".join(value for value, _ in steps)
        keys = ";".join(f"{key:.4f}".rstrip("0").rstrip(".") for _, key in steps)
        # Without animation, the last frame is visible.
        hidden = "" if stop >= 1 else ' visibility="hidden"'
        animation = f'<animate attributeName="visibility" calcMode="discrete" dur="{total:.2f}s" ' \
            f'repeatCount="indefinite" values="{values}" keyTimes="{keys}"/>'
        body.append(f'<use href="#{name}" y="{row * LINE}"{hidden}>{animation}</use>')
    width = round(COLUMNS * CHAR + 2 * MARGIN)
    height = ROWS * LINE + 2 * MARGIN + BAR
    colors = "".join(f".c{number}{{fill:{color}}}" for number, color in COLORS.items())
    lights = "".join(f'<circle cx="{20 + 18 * at}" cy="18" r="5.5" fill="{color}"/>'
                     for at, color in enumerate(("#ff5f56", "#ffbd2e", "#27c93f")))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>agentls demo in a terminal</title>
<desc>Recorded from the real program by docs/images/record.py.</desc>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:{TEXT};white-space:pre}}
{colors}.c1{{font-weight:bold}}.c2{{opacity:.65}}.c3{{font-style:italic}}.c4{{text-decoration:underline}}
</style>
<defs>
{chr(10).join(definitions)}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>
{lights}
<g transform="translate({MARGIN} {BAR + MARGIN + 4})">
{chr(10).join(body)}
</g>
</svg>
"""


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/agentls")
    picture = svg(record(program))
    sys.stdout.write(picture)
    print(f"{len(picture) / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
