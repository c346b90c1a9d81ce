#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""orion_models.py LIBRARY SECONDS [off]: two PyTorch models in one process, as users of Orion write it with ctypes.

The high-priority thread answers 25 requests per second with ResNet-50, the best-effort one trains a GPT. Prints one line of
JSON: the requests' median and 99th percentile in ms, how many answers were wrong, the iterations of the training per second,
and the loss of its 50th iteration, which must be the same with the scheduler as without. With "off", the scheduler is
disabled."""
import sys

sys.dont_write_bytecode = True

import ctypes
import json
import os
import threading
import time

lib = ctypes.CDLL(sys.argv[1])
lib.orion_start_scheduler.argtypes = [ctypes.c_int]
lib.orion_start_scheduler.restype = ctypes.c_int
lib.orion_stop_scheduler.restype = None
lib.orion_set_client_idx.argtypes = [ctypes.c_int]

ret = lib.orion_start_scheduler(2)
if ret != 0:
    raise RuntimeError("Failed to start scheduler")
if sys.argv[3:] == ["off"]:
    lib.orion_set_enabled(0)

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # results are compared bit by bit
import torch  # noqa: E402
import torchvision  # noqa: E402

import benchlib  # noqa: E402
import torch_train  # noqa: E402

SECONDS, WARM_UP, COMPARED, RATE = float(sys.argv[2]), 10, 50, 25
requests_ms, losses, times = [], [], []
wrong = 0
ready = threading.Barrier(2)
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = torchvision.models.resnet50(weights=None).eval().half().cuda()
image = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.float16)
words = torch_train.Words(None)
optimizer = torch.optim.AdamW(words.model.parameters(), lr=1e-4, fused=True)


def hp_worker():
    global wrong
    lib.orion_set_client_idx(0)   # high-priority client
    with torch.inference_mode():
        for _ in range(WARM_UP):
            expected = model(image)
        torch.cuda.current_stream().synchronize()
        ready.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            start = time.monotonic()
            answer = model(image)
            torch.cuda.current_stream().synchronize()
            requests_ms.append(1000 * (time.monotonic() - start))
            wrong += not torch.equal(answer, expected)
            time.sleep(max(0, start + 1 / RATE - time.monotonic()))


def be_worker():
    lib.orion_set_client_idx(1)   # best-effort client
    end = None
    while end is None or time.monotonic() < end:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = words.loss(len(losses))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.monotonic())
        if len(losses) == WARM_UP:
            ready.wait()
            end = time.monotonic() + SECONDS


t1 = threading.Thread(target=hp_worker)
t2 = threading.Thread(target=be_worker)
t1.start(); t2.start()
t1.join(); t2.join()
lib.orion_stop_scheduler()
print(json.dumps(dict(
    mode="disabled" if sys.argv[3:] else "scheduled", requests=len(requests_ms), wrong=wrong,
    p50_ms=round(benchlib.percentile(requests_ms, 50), 3), p99_ms=round(benchlib.percentile(requests_ms, 99), 3),
    iterations_per_s=round((len(times) - WARM_UP) / (times[-1] - times[WARM_UP - 1]), 2),
    loss=losses[COMPARED - 1] if len(losses) >= COMPARED else None)))
