# SPDX-License-Identifier: Apache-2.0
"""What the other tests are written with."""
import contextlib
import io
import os
import shutil
import stat
import subprocess
import tempfile

import harness
from harness import alive, main, measured, staged

ODD_NAME = """if True:
    import ctypes, sys
    assert ctypes.CDLL(None).prctl(15, b"\\xff\\xfe) R 1") == 0
    print("named", flush=True)
    sys.stdin.read()
"""


def test_names_that_are_no_text(s):
    """A stranger's process may be called anything."""
    s.rubato("run", "--", "true")
    daemon = s.daemon()
    odd = subprocess.Popen(["python3", "-c", ODD_NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert odd.stdout.readline() == b"named\n"
        assert s.processes("rubatod") == [daemon]
        assert alive(odd.pid)
        assert harness.in_process_session(odd.pid) == [odd.pid]
    finally:
        odd.communicate()
    assert not alive(odd.pid)


def quietly(function):
    """How often a test runs and what is said, as the runner runs it: (whether it holds, how often, lines that say so)."""
    runs = []

    def test(s):
        runs.append(s)
        function(len(runs))

    test.tries = getattr(function, "tries", 1)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        held = harness.holds("test_it", test)
    return held, len(runs), [line for line in out.getvalue().splitlines() if line.startswith("repeated")]


def test_only_measurements_are_repeated(s):
    def second(run):
        assert run == 2, "too\nearly"

    def never(run):
        raise AssertionError("never")

    assert quietly(second) == (False, 1, [])
    assert quietly(measured(second)) == (True, 2, ["repeated test_it: attempt 1 of 3: too early"])
    def broken(run):
        raise OSError("no measurement")

    assert quietly(measured(broken)) == (False, 1, [])
    held, runs, said = quietly(measured(never))
    assert (held, runs, len(said)) == (False, 3, 2), said


def test_a_build_tree_that_others_cannot_read(s):
    if os.geteuid() != 0:
        return
    closed = tempfile.mkdtemp(prefix="rbt-closed-", dir="/tmp")  # mode 0700
    try:
        build = os.path.join(closed, "build")
        os.makedirs(os.path.join(build, "tests/progs"))
        for name in "rubato", "tests/progs/rmclient":
            with open(os.path.join(build, name), "w") as f:
                f.write("#!/bin/sh\necho ran ${0##*/}\n")
            os.chmod(os.path.join(build, name), stat.S_IRWXU)
        as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        assert subprocess.run([*as_nobody, os.path.join(build, "rubato")], capture_output=True).returncode != 0
        copy = staged(build)
        for name in "rubato", "tests/progs/rmclient":
            done = subprocess.run([*as_nobody, os.path.join(copy, name)], capture_output=True, text=True)
            assert done.stdout == f"ran {os.path.basename(name)}\n", done
        os.chmod(closed, 0o711)
        os.chmod(build, 0o755)
        assert staged(build) == build, "no copy is needed"
    finally:
        shutil.rmtree(closed)


main()
