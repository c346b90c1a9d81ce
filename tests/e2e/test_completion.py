# SPDX-License-Identifier: Apache-2.0
"""Completion in bash: commands, options and values are those of --help, process ids those of `rubato ps`."""
import os
import re
import subprocess

from harness import BUILD, HERE, binary, main

SCRIPT = os.path.join(HERE, "..", "..", "packaging", "bash-completion")
ASK = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rubato; printf "%s\\n" "${COMPREPLY[@]}"'


def completed(s, *words):
    done = s.command("bash", "-c", "PATH=$1:$PATH; shift; " + ASK, SCRIPT, BUILD, *map(str, words))
    assert done.returncode == 0 and done.stderr == "", (words, done.stderr)
    return done.stdout.split()


def help_of(*words):
    return subprocess.run([binary(words[0]), *words[1:], "--help"], capture_output=True, text=True, timeout=30).stdout


def commands_of(tool):
    return re.findall(r"^  ([a-z-]+)  +\S", help_of(tool), re.M)


def test_every_command_and_option(s):
    """Of both tools, without a list in the script."""
    for tool, least in ("rubato", 10), ("rubato-softgpu", 4):
        commands = commands_of(tool)
        assert len(commands) >= least and completed(s, tool, "") == sorted(commands), commands
        for command in commands:
            options = set(re.findall("--[a-z][a-z-]*", help_of(tool, command))) | {"--help"}
            assert completed(s, tool, command, "--") == sorted(options, key=lambda o: o.encode()), command
    assert completed(s, "rubatod", "--ch") == ["--check"]
    assert completed(s, "rubato", "re") == ["renice", "resume"]
    assert "load" in completed(s, "rubato", "policy", "") and completed(s, "rubato", "profile", "r") == ["record"]


def test_values(s):
    for words in ("run", "--class", ""), ("run", "-c", ""), ("renice", "1", "--class", "=", ""), ("run", "--class", "="):
        assert completed(s, "rubato", *words) == ["best-effort", "latency", "normal"], words
    assert completed(s, "rubato", "run", "--class", "=", "b") == ["best-effort"]
    assert completed(s, "rubato", "run", "--engine", "") == completed(s, "rubato", "policy", "check", "--engine", "") == ["auto", "kernel", "vm"]
    assert "share" in completed(s, "rubato", "top", "--sort", "s")
    assert completed(s, "rubato", "ps", "--device", "") == ["soft"]
    assert completed(s, "rubato", "run", "--weight", "") == []  # a number
    assert completed(s, "rubato", "policy", "check", SCRIPT[:-3]) == [SCRIPT]


def test_a_command_to_run(s):
    """Its words are no longer Rubato's."""
    for words in (["run"], ["run", "--class", "latency"], ["run", "--class", "=", "latency", "--"], ["profile", "record", "-o", "x", "--"]):
        assert "bash" in completed(s, "rubato", *words, "bas"), words
        assert completed(s, "rubato", *words, "bash", "--cla") == [], words
    assert "bash" in completed(s, "rubato-softgpu", "exec", "--gpus", "2", "--", "bas")


def test_pids(s):
    first, second = s.program(), s.run("--class", "best-effort")
    want = sorted((str(first.pid), str(second.pid)))
    for words in ("renice", ""), ("suspend", ""), ("resume", ""), ("renice", "--class", "normal", ""):
        assert completed(s, "rubato", *words) == want, words
    assert completed(s, "rubato", "ps", "") == []


main()
