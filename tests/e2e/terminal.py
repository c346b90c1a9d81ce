# SPDX-License-Identifier: Apache-2.0
"""A terminal in a few lines: a pty with a program on it, and what its screen shows.

Knows the sequences that curses emits for TERM=xterm, xterm-256color and vt100; one that it does not know is an error, so
that no test passes by overlooking something.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

CSI = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([@-~])")
OTHER = re.compile(rb"\x1b(?:[()][0AB]|[78=>MDEHc])")
KEYS = {"up": "\x1bOA", "down": "\x1bOB", "home": "\x1bOH", "end": "\x1bOF", "page up": "\x1b[5~", "page down": "\x1b[6~",
        "F1": "\x1bOP", "F4": "\x1bOS", "F6": "\x1b[17~", "F7": "\x1b[18~", "F8": "\x1b[19~", "F10": "\x1b[21~",
        "enter": "\r", "escape": "\x1b", "backspace": "\x7f"}


def char_width(ch):
    if unicodedata.combining(ch) or unicodedata.category(ch) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


class Screen:
    """Fed with bytes; cells are (character, set of attributes)."""

    def __init__(self, width, height):
        self.alternate = False
        self.cursor_visible = True
        self.attributes = frozenset()
        self.saved = (0, 0)
        self.rest = b""
        self.decode = codecs.getincrementaldecoder("utf-8")("strict").decode
        self.width = self.height = 0
        self.cells = []
        self.x = self.y = 0
        self.last = " "
        self.resize(width, height)

    def resize(self, width, height):
        blank = (" ", frozenset())
        rows = [row[:width] + [blank] * (width - len(row)) for row in self.cells[:height]]
        self.cells = rows + [[blank] * width for _ in range(height - len(rows))]
        self.width, self.height, self.top, self.bottom = width, height, 0, height - 1
        self.x, self.y = min(self.x, width - 1), min(self.y, height - 1)

    def lines(self):
        return ["".join(ch for ch, _ in row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines()).rstrip("\n")

    def feed(self, data):
        data, at = self.rest + data, 0
        while at < len(data):
            if data[at] == 0x1b:
                found = CSI.match(data, at) or OTHER.match(data, at)
                if not found:
                    if len(data) - at < 24:
                        break
                    raise AssertionError(f"unknown sequence: {data[at:at + 24]!r}")
                self.sequence(found)
                at = found.end()
            else:
                end = data.find(b"\x1b", at)
                end = len(data) if end < 0 else end
                for ch in self.decode(data[at:end]):
                    self.put(ch)
                at = end
        self.rest = data[at:]

    def put(self, ch):
        if ch == "\r":
            self.x = 0
        elif ch == "\n":
            self.line_feed()
        elif ch == "\b":
            self.x = max(0, min(self.x, self.width - 1) - 1)
        elif ch == "\t":
            self.x = min(self.width - 1, (self.x // 8 + 1) * 8)
        elif ch in "\x0e\x0f\x07\x00":
            pass
        else:
            assert ch >= " " and not "\x7f" <= ch < "\xa0", f"control character on the screen: {ch!r}"
            self.write(ch)

    def write(self, ch):
        width = char_width(ch)
        assert width > 0, f"a character without width: {ch!r}"
        if self.x + width > self.width:
            self.x = 0
            self.line_feed()
        self.last = ch
        self.cells[self.y][self.x] = (ch, self.attributes)
        if width == 2:
            self.cells[self.y][self.x + 1] = ("", self.attributes)
        self.x += width

    def line_feed(self):
        if self.y == self.bottom:
            self.scroll(1)
        else:
            self.y = min(self.y + 1, self.height - 1)

    def scroll(self, n, top=None):
        top = self.top if top is None else top
        blank = [(" ", frozenset())] * self.width
        for _ in range(abs(n)):
            if n > 0:
                del self.cells[top]
                self.cells.insert(self.bottom, list(blank))
            else:
                del self.cells[self.bottom]
                self.cells.insert(top, list(blank))

    def erase(self, y, start, end):
        for x in range(start, min(end, self.width)):
            self.cells[y][x] = (" ", frozenset())

    def sequence(self, found):
        if found.re is OTHER:
            if found[0] == b"\x1bM":
                self.scroll(-1) if self.y == self.top else self.move(self.x, self.y - 1)
            elif found[0] == b"\x1b7":
                self.saved = (self.x, self.y)
            elif found[0] == b"\x1b8":
                self.move(*self.saved)
            return
        private, numbers, final = found[1], [int(n) if n else 0 for n in found[2].split(b";")], found[3]
        if private:
            self.mode(numbers, final)
            return
        n = numbers[0]
        act = getattr(self, f"csi_{final.decode() if final.isalpha() else 'at'}", None)
        assert act is not None, f"unknown sequence: {found[0]!r}"
        act(n, numbers)

    def mode(self, numbers, final):
        for n in numbers:
            if n == 1049:
                self.alternate = final == b"h"
            elif n == 25:
                self.cursor_visible = final == b"h"

    def move(self, x, y):
        self.x, self.y = max(0, min(x, self.width - 1)), max(0, min(y, self.height - 1))

    def csi_H(self, n, numbers):
        self.move(max(1, (numbers + [1])[1]) - 1, max(1, n) - 1)

    def csi_A(self, n, numbers):
        self.move(self.x, self.y - max(1, n))

    def csi_B(self, n, numbers):
        self.move(self.x, self.y + max(1, n))

    def csi_C(self, n, numbers):
        self.move(self.x + max(1, n), self.y)

    def csi_D(self, n, numbers):
        self.move(self.x - max(1, n), self.y)

    def csi_G(self, n, numbers):
        self.move(max(1, n) - 1, self.y)

    def csi_d(self, n, numbers):
        self.move(self.x, max(1, n) - 1)

    def csi_J(self, n, numbers):
        if n == 0:
            self.erase(self.y, self.x, self.width)
        for y in range(self.y + 1 if n == 0 else 0, self.height if n != 1 else self.y):
            self.erase(y, 0, self.width)
        if n == 1:
            self.erase(self.y, 0, self.x + 1)

    def csi_K(self, n, numbers):
        self.erase(self.y, 0 if n else self.x, self.x + 1 if n == 1 else self.width)

    def csi_X(self, n, numbers):
        self.erase(self.y, self.x, self.x + max(1, n))

    def csi_P(self, n, numbers):
        row = self.cells[self.y]
        del row[self.x:self.x + max(1, n)]
        row += [(" ", frozenset())] * (self.width - len(row))

    def csi_at(self, n, numbers):
        row = self.cells[self.y]
        row[self.x:self.x] = [(" ", frozenset())] * max(1, n)
        del row[self.width:]

    def csi_L(self, n, numbers):
        self.scroll(-max(1, n), self.y)

    def csi_M(self, n, numbers):
        self.scroll(max(1, n), self.y)

    def csi_S(self, n, numbers):
        self.scroll(max(1, n))

    def csi_T(self, n, numbers):
        self.scroll(-max(1, n))

    def csi_b(self, n, numbers):
        for _ in range(max(1, n)):
            self.write(self.last)

    def csi_r(self, n, numbers):
        self.top, self.bottom = max(1, n) - 1, ((numbers + [0])[1] or self.height) - 1
        self.move(0, 0)

    def csi_m(self, n, numbers):
        for number in numbers:
            self.attributes = self.attributes | {number} if number else frozenset()

    def csi_t(self, n, numbers):
        pass

    csi_h = csi_l = csi_t


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, env, width=80, height=24, term="xterm-256color", locale="C.UTF-8"):
        env = {k: v for k, v in env.items() if not k.startswith("LC_") and k not in ("LINES", "COLUMNS", "NO_COLOR")}
        env.update(TERM=term, LC_ALL=locale)
        self.screen = Screen(width, height)
        self.master, self.slave = pty.openpty()
        self.set_size(width, height)
        self.before = termios.tcgetattr(self.slave)
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
                for fd in range(3):
                    os.dup2(self.slave, fd)
                os.closerange(3, 64)
                os.execvpe(argv[0], argv, env)
            finally:
                os._exit(127)

    def set_size(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        self.screen.resize(width, height)
        self.set_size(width, height)

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def read(self, seconds=0.05):
        """What has come; False when nothing has."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.screen.feed(os.read(self.master, 65536))
        return True

    def until(self, what, condition, seconds=10):
        """Waits until condition(text of the screen) is true and returns its value; text stands for itself."""
        if isinstance(condition, str):
            wanted, condition = condition, lambda text: wanted in text
        end = time.monotonic() + seconds
        while True:
            while self.read(0.02):
                pass
            value = condition(self.screen.text())
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"never: {what}; the screen:\n{self.screen.text()}")

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, seconds=10):
        """Its exit code (negative: a signal), and the terminal as it was before."""
        self.until("it ends", lambda text: self.ended(), seconds)
        while self.read(0.02):
            pass
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's settings were not restored"
        assert not self.screen.alternate, "left in the alternate screen"
        assert self.screen.cursor_visible, "left without a cursor"
        return self.status

    def kill(self, number=signal.SIGKILL):
        if not self.ended():
            os.kill(self.pid, number)

    def end(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -signal.SIGKILL
        os.close(self.master)
        os.close(self.slave)
