#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A memory limit on a real GPU: PyTorch with each of its allocators under `rubato run --memory`.

Each allocates until PyTorch raises its own OutOfMemoryError, checks every value, frees half, allocates again and computes.
Prints a Markdown table of what the framework, Rubato and the driver counted at the limit; the exit status is 0 if all
allocators stopped within one allocation unit of the limit and went on with right values. Takes less than a minute.

usage: bench/h200_memory.py [--memory SIZE] [--unit MIB] [--json FILE] [BUILD_DIRECTORY]
"""
import argparse
import json
import os
import subprocess
import sys
import time

ALLOCATORS = {
    "default": "",
    "expandable segments": "expandable_segments:True",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}
TOTAL_S = 57
MIB = 1 << 20


def nvidia_smi(*query):
    """The numbers of a query, in MiB; None if there is no such tool or answer."""
    try:
        done = subprocess.run(["nvidia-smi", "--format=csv,noheader,nounits", *query], capture_output=True, text=True, timeout=8)
        return [list(map(int, line.split(","))) for line in done.stdout.splitlines()] if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def used_by_nvml(pid):
    """By this process; or of the whole GPU, if the tool does not know the pid, as in a container."""
    for row in nvidia_smi("--query-compute-apps=pid,used_memory") or []:
        if row[0] == pid:
            return row[1], "process"
    rows = nvidia_smi("--query-gpu=memory.used")
    return (rows[0][0], "GPU") if rows else (None, "-")


def used_by_rubato(rubato, pid):
    try:
        done = subprocess.run([rubato, "ps", "--json"], capture_output=True, text=True, timeout=8)
        return next((p for p in json.loads(done.stdout)["programs"] if p["pid"] == pid), {})
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return {}


def child(rubato, unit_mib):
    import torch

    before = nvidia_smi("--query-gpu=memory.used")
    free, total = torch.cuda.mem_get_info()
    told = {"free_mib": free // MIB, "total_mib": total // MIB}
    properties = torch.cuda.get_device_properties(0).total_memory // MIB
    blocks, error = [], None
    while error is None:
        try:
            blocks.append(torch.full((unit_mib * MIB // 4,), len(blocks), dtype=torch.float32, device="cuda"))
        except torch.cuda.OutOfMemoryError as e:
            error = type(e).__name__ + ": " + str(e).split(".")[0]
    torch.cuda.synchronize()
    nvml, whose = used_by_nvml(os.getpid())
    ps = used_by_rubato(rubato, os.getpid())
    left = torch.cuda.mem_get_info()[0] // MIB
    right = all(bool((b == i).all()) for i, b in enumerate(blocks))
    n = len(blocks)
    del blocks[n // 2:]
    torch.cuda.empty_cache()
    again = torch.full((unit_mib * MIB // 4,), 7.0, device="cuda")
    a = torch.eye(512, device="cuda") * 3
    right = right and bool((again == 7).all()) and float((a @ a).trace()) == 512 * 9 and \
        all(bool((b == i).all()) for i, b in enumerate(blocks))
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), "blocks": n, "unit_mib": unit_mib,
                      "allocated_mib": n * unit_mib, "reserved_mib": torch.cuda.max_memory_reserved() // MIB,
                      "told_before": told, "left_at_limit_mib": left, "properties_mib": properties, "error": error,
                      "nvml_mib": nvml, "nvml_of": whose, "gpu_before_mib": before[0][0] if before else None,
                      "driver_mib": (ps.get("memory_bytes") or 0) // MIB, "run_mib": (ps.get("memory_run_bytes") or 0) // MIB,
                      "limit_mib": (ps.get("memory_limit_bytes") or 0) // MIB, "enforced": ps.get("memory_enforced"),
                      "right_values_afterwards": right}), flush=True)


def run_one(rubato, name, options, left_s):
    env = dict(os.environ)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        env.pop(variable, None)
        if ALLOCATORS[name]:
            env[variable] = ALLOCATORS[name]
    argv = [rubato, "run", "--memory", options.memory, "--", sys.executable, os.path.abspath(__file__), "--child",
            "--unit", str(options.unit), options.build]
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=left_s)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {left_s:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return json.loads(lines[-1])


def holds(r):
    """The driver's own count is within one allocation unit below the limit, and the program went on."""
    return "failed" not in r and r["error"].startswith("OutOfMemoryError") and r["right_values_afterwards"] and \
        r["limit_mib"] - r["unit_mib"] <= r["driver_mib"] <= r["limit_mib"] + r["unit_mib"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", default="8G")
    parser.add_argument("--unit", type=int, default=128)
    parser.add_argument("--json")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("build", nargs="?", default=os.environ.get("BUILD", "build"))
    options = parser.parse_args()
    rubato = os.path.join(options.build, "rubato")
    if options.child:
        return child(rubato, options.unit)
    end = time.monotonic() + TOTAL_S
    results = {name: run_one(rubato, name, options, max(1.0, end - time.monotonic())) for name in ALLOCATORS}
    print(f"`rubato run --memory {options.memory}`, in blocks of {options.unit} MiB\n")
    print("| allocator | blocks, MiB | driver's count | run's count | NVML | told before (free / total) | left at the limit | "
          "goes on with right values |")
    print("|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        if "failed" in r:
            print(f"| {name} | failed: {r['failed']} | | | | | | |")
        else:
            print(f"| {name} | {r['allocated_mib']} | {r['driver_mib']} | {r['run_mib']} | {r['nvml_mib']} ({r['nvml_of']}) | "
                  f"{r['told_before']['free_mib']} / {r['told_before']['total_mib']} | {r['left_at_limit_mib']} | "
                  f"{'yes' if r['right_values_afterwards'] else 'NO'} |")
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)
    return 0 if all(map(holds, results.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
