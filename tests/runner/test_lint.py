#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/lint that are its own, on trees that break one rule each.

usage: test_lint.py LINT
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest

LINT = os.path.abspath(sys.argv.pop(1))
TABLE = """
| folder | what lives there | may include |
|---|---|---|
| `src/util` | time | libc |
| `src/board` | shared memory | `util/time.h` |
| `src/soft` | a device | vendor ABI, util |
| `src/soft/ptx`, `exec` | pure libraries | libc |
| `src/soft/rm` | a model | the same |
| `tests` | tests | |
"""


def load_lint():
    loader = importlib.machinery.SourceFileLoader("lint", LINT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    loader.exec_module(module)
    return module


class Tree(unittest.TestCase):
    def setUp(self):
        sys.dont_write_bytecode = True
        self.lint = load_lint()
        self.dir = tempfile.mkdtemp(prefix="rbt-lint-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir)
        self.files = []

    def put(self, path, text):
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        self.files.append(path)

    def findings(self, check):
        """What a check prints below its own line; a finding makes lint fail."""
        self.lint.failed = False
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            check(self.files)
        first, *findings = out.getvalue().splitlines()
        self.assertEqual((first.startswith("FAIL"), self.lint.failed), (bool(findings),) * 2, out.getvalue())
        return [line.strip() for line in findings]


class Includes(Tree):
    def setUp(self):
        super().setUp()
        for folder in "util", "board", "soft/ptx", "soft/exec":
            os.makedirs("src/" + folder)
        with open("CONTRIBUTING.md", "w") as f:
            f.write(TABLE)

    def test_the_table_decides(self):
        self.put("src/util/time.c", '#include "util/time.h"\n#include <time.h>\n')
        self.put("src/board/board.c", '#include "util/time.h"\n#include "board/layout.h"\n')
        self.put("src/soft/rm/rm.c", '#include "backend/nvidia/rm_abi.h"\n#include "util/fd.h"\n#include "soft/x.h"\n')
        self.put("src/soft/exec/run.c", '#include "soft/ptx/ir.h"\n')
        self.put("tests/unit/test.c", '#include "anything/at_all.h"\n')
        self.lint.RM_ABI_USERS = ("src/soft/",)
        self.assertEqual(self.findings(self.lint.check_includes), [])

    def test_what_is_not_in_the_table_is_reported(self):
        self.put("src/util/time.c", '#include "board/board.h"\n')
        self.put("src/board/board.c", '\n#include "util/fd.h"\n')
        self.put("src/soft/ptx/lexer.c", '#include "soft/rm.h"\n')
        self.put("src/new/a.c", "int a;\n")
        self.put("bench/b.c", '#include "backend/nvidia/rm_abi.h"\n')
        findings = self.findings(self.lint.check_includes)
        self.assertEqual([f for f in findings if "rm_abi" not in f],
                         ["CONTRIBUTING.md: no row for src/new", "src/board/board.c:2: src/board may not include util/fd.h",
                          "src/soft/ptx/lexer.c:1: src/soft/ptx may not include soft/rm.h",
                          "src/util/time.c:1: src/util may not include board/board.h"])
        self.assertTrue(any(f.startswith("bench/b.c:1: backend/nvidia/rm_abi.h is for ") for f in findings))

    def test_a_header_beside_is_the_folder_s_own(self):
        self.put("src/util/fd.h", "")
        self.put("src/util/fd.c", '#include "fd.h"\n')
        self.assertEqual(self.findings(self.lint.check_includes), [])

    def test_a_row_without_a_folder(self):
        os.rmdir("src/board")
        self.assertEqual(self.findings(self.lint.check_includes),
                         ["CONTRIBUTING.md: src/board is in the table, but there is no such folder"])


class Sizes(Tree):
    def test_at_the_limits(self):
        self.put("src/a.c", "int f(void)\n{\n" + "\tg();\n" * 60 + "}\n" + "\n" * (600 - 63))
        self.put("src/main.c", "int main(void)\n{\n" + "\tg();\n" * 80 + "}\n")
        self.assertEqual(self.findings(self.lint.check_sizes), [])

    def test_beyond_them(self):
        self.put("src/a.c", "int f(int a,\n      int b)\n{\n" + "\tg();\n" * 61 + "}\n")
        self.put("src/b.h", "\n" * 601)
        self.put("src/main.c", "int main(void)\n{\n" + "\tg();\n" * 81 + "}\n")
        self.assertEqual(self.findings(self.lint.check_sizes),
                         ["src/a.c:1: f() has 61 lines", "src/b.h: 601 lines", "src/main.c:1: main() has 81 lines"])


# In pieces, so that lint does not find this file.
WHO, WHOM, WHOSE = "Wh" + "o", "Wh" + "om", "Wh" + "ose"


class Subjects(Tree):
    def test_sentences_without_a_noun(self):
        self.put("a.md", f"A turn ends. {WHO}\nis idle has none.\n")
        self.put("src/a.c", f"/* {WHOM} it is of. */\nint a; /* Those who wait. {WHOSE} turn it is, is next. */\n")
        self.put("docs/man/a.1", f".Ss {WHO} may do what\n.It Fl l\n{WHOM} it names\n")
        self.put("script", f"#!/bin/sh\n# {WHO} asks.\n")
        self.put("b.md", f"# A heading\n\n{WHO} asks, waits.\n- {WHOSE} it is\n")
        self.put("a.py", f'"""{WHOM} it names."""\n')
        self.assertEqual(self.findings(self.lint.check_who),
                         [f"a.md:1: a sentence begins with '{WHO}'", f"src/a.c:1: a sentence begins with '{WHOM}'",
                          f"src/a.c:2: a sentence begins with '{WHOSE}'", f"docs/man/a.1:1: a sentence begins with '{WHO}'",
                          f"docs/man/a.1:3: a sentence begins with '{WHOM}'",
                          f"script:2: a sentence begins with '{WHO}'",
                          f"b.md:3: a sentence begins with '{WHO}'", f"b.md:4: a sentence begins with '{WHOSE}'",
                          f"a.py:1: a sentence begins with '{WHOM}'"])

    def test_other_uses(self):
        self.put("a.md", f"## {WHO} may renice a program?\n\nUsers who own it. Not `{WHO} is idle`.\nThe WHO.\n"
                 f"No sentence begins with {WHO}, {WHOM} or {WHOSE}.\n")
        self.put("LICENSE", f"{WHO}\n")
        self.assertEqual(self.findings(self.lint.check_who), [])


unittest.main()
