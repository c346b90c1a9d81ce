# SPDX-License-Identifier: Apache-2.0
"""The latency program of bench/latency.c, in PyTorch: a request is one ResNet-50 inference, fp16."""
import sys

sys.dont_write_bytecode = True

import argparse
import gc
import os
import random
import time

import torch
import torchvision

import benchlib

WARM_REQUESTS = 5


class Server:
    def __init__(self, batch):
        torch.backends.cudnn.benchmark = True
        model = torchvision.models.resnet50(weights=None).eval().half().cuda()
        self.model = model.to(memory_format=torch.channels_last)
        image = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)
        self.image = image.to(memory_format=torch.channels_last)
        side = torch.cuda.Stream()
        with torch.inference_mode(), torch.cuda.stream(side):
            for _ in range(10):  # chooses algorithms and fills the allocator before the capture
                self.model(self.image)
        side.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self.graph):
            self.output = self.model(self.image)
        self.stream = torch.cuda.current_stream()
        for mode in ("graph", "eager"):
            for _ in range(20):
                self.serve(mode)

    def serve(self, mode):
        if mode == "graph":
            self.graph.replay()
        else:
            with torch.inference_mode():
                self.model(self.image)
        self.stream.synchronize()

    def measure(self, mode, n, rate, seed):
        if mode not in ("graph", "eager"):
            raise ValueError(mode)
        n, rate, arrivals = int(n), float(rate), random.Random(int(seed))
        latency_us, service_us, late_us = [], [], []
        gc.collect()
        gc.disable()
        arrival_ns = end_ns = time.monotonic_ns() + 1_000_000
        for _ in range(n + WARM_REQUESTS):
            arrival_ns += int(arrivals.expovariate(rate) * 1e9)
            idle = arrival_ns >= end_ns
            wait_until(arrival_ns)
            start_ns = time.monotonic_ns()
            self.serve(mode)
            end_ns = time.monotonic_ns()
            # A generator that slept too long sent its request late: that is its lateness, not the request's latency.
            latency_us.append(round((end_ns - (start_ns if idle else arrival_ns)) / 1e3, 1))
            service_us.append(round((end_ns - start_ns) / 1e3, 1))
            late_us.append(round((start_ns - arrival_ns) / 1e3, 1) if idle else 0.0)
        gc.enable()
        benchlib.answer(latency_us=latency_us[WARM_REQUESTS:], service_us=service_us[WARM_REQUESTS:],
                        late_us=late_us[WARM_REQUESTS:])


def wait_until(when_ns):
    ahead_ns = when_ns - time.monotonic_ns()
    if ahead_ns > 200_000:
        time.sleep((ahead_ns - 200_000) / 1e9)  # a sleeper wakes late: sleep short, then spin
    while time.monotonic_ns() < when_ns:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1, help="images in a request (%(default)s)")
    server = Server(parser.parse_args().batch)
    benchlib.answer(ready="torch_latency", pid=os.getpid(), gpu=torch.cuda.get_device_name(),
                    torch=torch.__version__)
    benchlib.obey({"measure": server.measure})


main()
