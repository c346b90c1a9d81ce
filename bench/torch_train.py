# SPDX-License-Identifier: Apache-2.0
"""The best-effort program of bench/besteffort.c, in PyTorch: trains a GPT-like model on random tokens, or ResNet-50 on
random images (bf16); or, instead, copies blocks to the device and back, both ways at once; or is launch-bound, with 200
tiny kernels per step.

Commands are those of bench/besteffort.c, but for `check`. They are read by a thread of their own: `count` answers
also while the device is taken away and the training thread waits for it.
"""
import sys

sys.dont_write_bytecode = True

import argparse
import collections
import os
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

import benchlib

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 50304, 1024, 768, 12, 12
IN_FLIGHT = 2  # iterations submitted ahead of the device, as a trainer that reads its loss now and then does


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(self.tokens(tokens) + places)))


class Words:
    """What is learnt from tokens."""

    def __init__(self, batch):
        self.model = Model().cuda()
        self.data = torch.randint(VOCABULARY, (8, batch or 10, CONTEXT + 1), device="cuda")

    def loss(self, i):
        tokens = self.data[i % len(self.data)]
        return F.cross_entropy(self.model(tokens[:, :-1]).view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


class Pictures:
    """What is learnt from images."""

    def __init__(self, batch):
        import torchvision
        torch.backends.cudnn.benchmark = True
        self.model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
        self.data = torch.randn(batch or 256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        self.labels = torch.randint(1000, (len(self.data),), device="cuda")

    def loss(self, _):
        return F.cross_entropy(self.model(self.data), self.labels)


class Worker:
    """Does one iteration after the other, as submitted by step(), while it is wanted to."""

    in_flight = IN_FLIGHT

    def __init__(self):
        torch.cuda.synchronize()
        self.done, self.done_ns, self.longest_ns = 0, time.monotonic_ns(), 0
        self.wanted = threading.Event()
        self.idle = threading.Event()

    def work(self):
        in_flight, i = collections.deque(), 0
        while True:
            if not self.wanted.is_set():
                while in_flight:
                    self.finish(in_flight)
                self.idle.set()
                self.wanted.wait()
                self.done_ns = time.monotonic_ns()
                self.idle.clear()
            in_flight.append(self.step(i))
            i += 1
            if len(in_flight) > self.in_flight:
                self.finish(in_flight)

    def finish(self, in_flight):
        in_flight.popleft().synchronize()
        self.note(time.monotonic_ns())
        self.done += 1

    def note(self, now_ns):
        self.longest_ns, self.done_ns = max(self.longest_ns, now_ns - self.done_ns), now_ns

    def go(self):
        self.wanted.set()
        while self.idle.is_set():
            time.sleep(0.001)
        benchlib.answer(unit=1)

    def pause(self):
        self.wanted.clear()
        self.idle.wait()
        benchlib.answer(ok=True)

    def count(self):
        now_ns = time.monotonic_ns()
        longest_ns, self.longest_ns = max(self.longest_ns, now_ns - self.done_ns), 0
        self.done_ns = now_ns
        benchlib.answer(count=self.done, now_ns=now_ns, longest_ns=longest_ns)


class Trainer(Worker):
    def __init__(self, task):
        self.task = task
        self.optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4, fused=True)
        super().__init__()

    def step(self, i):
        """Submits one iteration; what it returns can be waited for."""
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.task.loss(i)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        event = torch.cuda.Event(blocking=True)  # eight that spin would disturb whom they stand beside
        event.record()
        return event


class Tiny(Worker):
    """Bound by its launches: the device is done with each kernel before the next one comes, and each step is waited
    for."""

    in_flight = 0

    def __init__(self):
        self.data = torch.zeros(1024, device="cuda")
        super().__init__()

    def step(self, _):
        for _ in range(200):
            self.data.add_(1)
        event = torch.cuda.Event(blocking=True)
        event.record()
        return event


class Events(list):
    def synchronize(self):
        for event in self:
            event.synchronize()


class Copier(Worker):
    """A block to the device and one back, each in a stream of its own, from and to pinned memory."""

    def __init__(self, block_mib):
        host, device = ([torch.zeros(block_mib << 20, dtype=torch.uint8, **where) for _ in range(2)]
                        for where in ({"pin_memory": True}, {"device": "cuda"}))
        self.copies = [(device[0], host[0], torch.cuda.Stream()), (host[1], device[1], torch.cuda.Stream())]
        super().__init__()

    def step(self, _):
        events = Events()
        for to, source, stream in self.copies:
            with torch.cuda.stream(stream):
                to.copy_(source, non_blocking=True)
                events.append(torch.cuda.Event(blocking=True))
                events[-1].record()
        return events


def listen(worker):
    benchlib.obey({"go": worker.go, "pause": worker.pause, "count": worker.count})
    os._exit(0)  # the other thread may wait for a device that was taken away


def main():
    benchlib.name_process("torch_train")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("gpt", "resnet50", "copy", "tiny"), default="gpt", help="(%(default)s)")
    parser.add_argument("--batch", type=int, help="sequences (10) or images (256) an iteration")
    parser.add_argument("--block-mib", type=int, default=256, help="of what is copied (%(default)s)")
    args = parser.parse_args()
    workers = {"gpt": lambda: Trainer(Words(args.batch)), "resnet50": lambda: Trainer(Pictures(args.batch)),
               "copy": lambda: Copier(args.block_mib), "tiny": Tiny}
    worker = workers[args.model]()
    benchlib.answer(ready="torch_train", pid=os.getpid(), gpu=torch.cuda.get_device_name(),
                    torch=torch.__version__)
    threading.Thread(target=listen, args=(worker,), daemon=True).start()
    worker.work()


if __name__ == "__main__":
    main()
