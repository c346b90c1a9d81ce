# SPDX-License-Identifier: Apache-2.0
"""The latency program of bench/latency.c, in PyTorch. A request is one ResNet-50 inference (fp16), as a CUDA graph or
eager, whose input is on the device already or is copied there first (--copy-input); or, with gaps, the generation of
16 tokens by a small decoder: 16 graphs, with a synchronisation after each."""
import sys

sys.dont_write_bytecode = True

import argparse
import gc
import os
import random
import time

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

import benchlib

sys.path.insert(0, os.path.join(benchlib.HERE, os.pardir, "python"))
import rubato  # noqa: E402

WARM_REQUESTS = 5
TOKENS = 16
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 50304, 256, 768, 12, 12


class Layer(nn.Module):
    """One layer of a decoder that generates: what it has seen is kept, and one token is added."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))

    def forward(self, x, place):
        q, k, v = self.qkv(self.norm1(x)).view(1, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        x = x + self.out(F.scaled_dot_product_attention(q, self.keys, self.values).transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("token", torch.zeros(1, 1, dtype=torch.long))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self):
        x = self.tokens(self.token)
        for layer in self.layers:
            x = layer(x, self.place)
        self.token.copy_(self.head(x).argmax(-1))
        self.place.copy_((self.place + 1) % CONTEXT)


def capture(work):
    """A CUDA graph of it, after it has chosen its algorithms and filled the allocator."""
    side = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(side):
        for _ in range(10):
            work()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        work()
    return graph


class Server:
    def __init__(self, batch, modes, copy_input):
        torch.backends.cudnn.benchmark = True
        model = torchvision.models.resnet50(weights=None).eval().half().cuda()
        self.model = model.to(memory_format=torch.channels_last)
        image = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)
        self.image = image.to(memory_format=torch.channels_last)
        self.input = self.image.cpu().pin_memory() if copy_input else None
        self.graph = capture(lambda: self.model(self.image))
        decoder = Decoder().half().cuda().eval()
        self.step = capture(decoder)
        self.stream = torch.cuda.current_stream()
        self.modes = {"graph": self.serve, "eager": self.serve_eagerly, "gaps": self.generate}
        for mode in modes:  # what is not asked for leaves no trace in what Rubato learns
            for _ in range(20):
                self.modes[mode]()

    def fetch(self):
        if self.input is not None:
            self.image.copy_(self.input, non_blocking=True)

    def serve(self):
        self.fetch()
        self.graph.replay()
        self.stream.synchronize()

    def serve_eagerly(self):
        self.fetch()
        with torch.inference_mode():
            self.model(self.image)
        self.stream.synchronize()

    def generate(self):
        for _ in range(TOKENS):
            self.step.replay()
            self.stream.synchronize()

    def measure(self, mode, n, rate, seed):
        serve, hinted = self.modes[mode.removesuffix("+hints")], mode.endswith("+hints")
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
            if hinted:
                rubato.request_begin()
            serve()
            if hinted:
                rubato.request_end()
            end_ns = time.monotonic_ns()
            # A generator that slept too long sent its request late: that is its lateness, not the request's latency.
            latency_us.append(round((end_ns - (start_ns if idle else arrival_ns)) / 1e3, 1))
            service_us.append(round((end_ns - start_ns) / 1e3, 1))
            late_us.append(round((start_ns - arrival_ns) / 1e3, 1) if idle else 0.0)
        gc.enable()
        benchlib.answer(latency_us=latency_us[WARM_REQUESTS:], service_us=service_us[WARM_REQUESTS:],
                        late_us=late_us[WARM_REQUESTS:], n_served=len(service_us), served_us=sum(service_us))

    def cost(self, mode):
        """What a request takes of the GPU when nothing waits for the host: replayed back to back."""
        graph, replays = (self.step, TOKENS) if mode == "gaps" else (self.graph, 1)
        begin, end, requests = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), 20
        graph.replay()
        begin.record()
        for _ in range(requests * replays):
            graph.replay()
        end.record()
        end.synchronize()
        benchlib.answer(gpu_us=begin.elapsed_time(end) * 1e3 / requests)


def wait_until(when_ns):
    ahead_ns = when_ns - time.monotonic_ns()
    if ahead_ns > 200_000:
        time.sleep((ahead_ns - 200_000) / 1e9)  # a sleeper wakes late: sleep short, then spin
    while time.monotonic_ns() < when_ns:
        pass


def main():
    benchlib.name_process("torch_latency")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1, help="images in a request (%(default)s)")
    parser.add_argument("--modes", default="graph,eager,gaps", help="to be warm for (%(default)s)")
    parser.add_argument("--copy-input", action="store_true", help="each request copies its images from pinned memory")
    args = parser.parse_args()
    server = Server(args.batch, args.modes.split(","), args.copy_input)
    benchlib.answer(ready="torch_latency", pid=os.getpid(), gpu=torch.cuda.get_device_name(),
                    torch=torch.__version__)
    benchlib.obey({"measure": server.measure, "cost": server.cost})


if __name__ == "__main__":
    main()
