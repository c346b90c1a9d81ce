# SPDX-License-Identifier: Apache-2.0
"""`rubato profile`: what it shows of a file, what it says of a wrong one, and how it starts a program to record."""
import json
import os

from harness import binary, main

ORION = "Name,Profile,Memory_footprint,SM_usage,Duration\n"
OURS = ORION[:-1] + ",Grid_size,Block_size,Shared,Runs,Total,P50,P99,Max\n"


def written(s, text, name="profile.csv"):
    path = os.path.join(s.dir, name)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


def refused(s, code, *args, says=()):
    done = s.rubato("profile", *args, code=code)
    assert done.stderr.count("\n") == 1, f"{args}: {done.stderr!r}"
    for word in [says] if isinstance(says, str) else says:
        assert word in done.stderr, f"{args}: {done.stderr!r} does not say {word!r}"
    assert done.stdout == "", f"{args}: {done.stdout!r}"


def test_usage(s):
    refused(s, 2, says="no verb")
    refused(s, 2, "frobnicate", says="no such verb")
    refused(s, 2, "show", says="show takes FILE")
    refused(s, 2, "show", "a", "b", says="show takes FILE")
    refused(s, 2, "show", "a", "--frobnicate", says="rubato: profile: ")
    refused(s, 2, "record", "--", "true", says="-o FILE")
    refused(s, 2, "record", "-o", "", "--", "true", says="-o FILE")
    refused(s, 2, "record", "-o", "file", says="no command")
    usage = s.rubato("profile", "--help").stdout
    for verb in ("show", "record"):
        assert s.rubato("profile", verb, "--help").stdout == usage
    assert not s.processes("rubatod")


def test_show(s):
    path = written(s, OURS +
                   "_ZN1a1bIfEEvPT_,1,0,4,2000,128x1x1,256x1x1,64,3,6000,1900,2400,2500\n"
                   "plain,0,4096,,500,,,,,,,,\n"
                   "(graph 1),-1,0,0,9000,,,,1,9000,9000,9000,9000\n")
    lines = s.rubato("profile", "show", path).stdout.splitlines()
    assert lines[0].split()[:4] == ["TIME", "TOTAL(us)", "RUNS", "MEAN(us)"], lines
    assert lines[1].split() == ["58.1%", "9.0", "1", "9.0", "9.0", "9.0", "-", "-", "-", "-", "-", "(graph", "1)"], lines
    assert lines[2].split() == ["38.7%", "6.0", "3", "2.0", "1.9", "2.4", "4", "compute", "128x1x1", "256x1x1", "64",
                                "a::b"], lines
    assert lines[3].split() == ["3.2%", "0.5", "-", "0.5", "-", "-", "-", "memory", "-", "-", "-", "plain"], lines
    rows = json.loads(s.rubato("profile", "show", "--json", path).stdout)
    assert [row["name"] for row in rows] == ["(graph 1)", "_ZN1a1bIfEEvPT_", "plain"], rows
    assert rows[1] == {"name": "_ZN1a1bIfEEvPT_", "kind": "compute", "sms": 4, "duration_ns": 2000,
                       "memory_bytes": None, "grid": [128, 1, 1], "block": [256, 1, 1], "shared_bytes": 64, "runs": 3,
                       "total_ns": 6000, "p50_ns": 1900, "p99_ns": 2400, "max_ns": 2500}, rows
    assert rows[2]["sms"] is None and rows[2]["grid"] is None and rows[2]["runs"] is None, rows
    assert rows[2]["memory_bytes"] == 4096, rows


def test_orions_file(s):
    path = written(s, ORION + "void at::native::f,0,0,48,5152\nvoid at::native::f,0,0,50,5154\n"
                              "void g(int, float),1,0,2,1\n")
    rows = json.loads(s.rubato("profile", "show", path, "--json").stdout)
    assert [(row["name"], row["kind"], row["sms"], row["duration_ns"], row["runs"]) for row in rows] == [
        ("void at::native::f", "memory", 50, 5153, 2), ("void g(int, float)", "compute", 2, 1, 1)], rows


def test_empty_profile(s):
    path = written(s, ORION)
    assert len(s.rubato("profile", "show", path).stdout.splitlines()) == 1
    assert json.loads(s.rubato("profile", "show", "--json", path).stdout) == []


def test_names_do_not_reach_the_terminal(s):
    path = written(s, ORION.encode() + b"\xc2\x9b31m\xff,0,0,1,1\n")
    done = s.rubato("profile", "show", path)
    assert done.stdout.splitlines()[1].endswith("31m?") and "\x9b" not in done.stdout, done.stdout
    json.loads(s.rubato("profile", "show", "--json", path).stdout)
    refused(s, 1, "show", written(s, ORION + "\x1b[2J,0,0,1,1\n"), says=["line 2", "field Name"])
    refused(s, 1, "show", written(s, ORION + "f,0,0,1,\x1b[2J\n"), says=["line 2", "field Duration", "'?[2J'"])


def test_wrong_files(s):
    refused(s, 1, "show", os.path.join(s.dir, "missing"), says=["missing", "No such file"])
    refused(s, 1, "show", s.dir, says=[s.dir, "directory"])
    for text, *says in (
            ("", "empty"),
            (b"\x7fELF\0\0\0", "no text"),
            ("junk\n", "line 1", "field Name"),
            (ORION + "f,1,0,3\n", "line 2", "has 4 fields"),
            (ORION + "f,1,0,3,5\n\nf,7,0,3,5\n", "line 4", "field Profile", "'7'"),
            (ORION + "f,1,0,3,long\n", "line 2", "field Duration", "'long'"),
            (OURS + "f,1,0,3,5,128,32x1x1,0,,,,,\n", "line 2", "field Grid_size", "'128'"),
            (OURS + "f,1,0,3,5,1x1x1,32x1x1,0,,,,,\n_Z1fv,1,0,3,5,1x1x1,32x", "line 3", "has 7 fields"),
            (ORION + '"f,1,0,3,5\n', "line 2", "quote"),
            ("x" * (16 << 20) + "\n", "16 MiB"),
    ):
        path = written(s, text, "bad.csv")
        refused(s, 1, "show", path, says=[path, *says])


def test_full_output(s):
    path = written(s, ORION + "f,1,0,3,5\n")
    done = s.command("sh", "-c", f"{binary('rubato')} profile show {path} > /dev/full")
    assert done.returncode == 1 and "cannot write output" in done.stderr, done


def test_record_sets_the_scene(s):
    """The program has the stand-in first, the path of the profile, and no daemon; its exit code is its own."""
    path = written(s, "earlier", "recorded.csv")
    script = "cd / && env && exit 7"
    done = s.command("sh", "-c", f"cd {s.dir} && exec {binary('rubato')} profile record -o recorded.csv -- sh -c '{script}'")
    assert done.returncode == 7 and done.stderr == "", done
    env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert env["RUBATO_ORION_PROFILE"] == path, env
    assert os.path.basename(env["LD_LIBRARY_PATH"].split(":")[0]) == "standin", env
    assert env["RUBATO_NO_DAEMON"] == "1" and "librubato.so" in env["LD_PRELOAD"], env
    assert os.path.getsize(path) == 0  # nothing was launched, and the earlier profile is not this program's
    refused(s, 1, "show", path, says="empty")
    assert not s.processes("rubatod")
    # The command's own options are not Rubato's.
    done = s.rubato("profile", "record", "--output", path, "echo", "--device", "mine", "-o", "x")
    assert done.stdout == "--device mine -o x\n", done


def test_record_refuses(s):
    path = written(s, "earlier", "recorded.csv")
    refused(s, 127, "record", "-o", path, "--", "no-such-command", says=["profile: ", "no-such-command"])
    refused(s, 126, "record", "-o", path, "--", s.dir, says=s.dir)
    with open(path) as f:
        assert f.read() == "earlier"
    refused(s, 1, "record", "-o", s.dir, "--", "true", says=[s.dir, "cannot be written"])
    refused(s, 1, "record", "-o", os.path.join(s.dir, "no", "file"), "--", "true", says="cannot be written")
    done = s.command("env", "LD_LIBRARY_PATH=", binary("rubato"), "profile", "record", "-o", path, "--", "true")
    if done.returncode != 0:  # unless the machine has a driver
        assert done.returncode == 5 and "libcuda.so.1" in done.stderr and done.stderr.count("\n") == 1, done


main()
