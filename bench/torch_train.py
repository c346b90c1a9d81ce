# SPDX-License-Identifier: Apache-2.0
"""The best-effort program of bench/besteffort.c, in PyTorch: trains a GPT-like model on random tokens, or ResNet-50 on
random images (bf16); or is launch-bound, with 200 tiny kernels a step.

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


class Trainer:
    in_flight = IN_FLIGHT

    def __init__(self, task):
        self.task = task
        if task is not None:
            self.optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4, fused=True)
        torch.cuda.synchronize()
        self.done, self.done_ns, self.longest_ns = 0, time.monotonic_ns(), 0
        self.wanted = threading.Event()
        self.idle = threading.Event()

    def step(self, i):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.task.loss(i)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        event = torch.cuda.Event(blocking=True)  # eight that spin would disturb whom they stand beside
        event.record()
        return event

    def train(self):
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


class Tiny(Trainer):
    """Bound by its launches: the device is done with each kernel before the next one comes, and each step is waited
    for."""

    in_flight = 0

    def __init__(self):
        self.data = torch.zeros(1024, device="cuda")
        super().__init__(None)

    def step(self, _):
        for _ in range(200):
            self.data.add_(1)
        event = torch.cuda.Event(blocking=True)
        event.record()
        return event


def listen(trainer):
    benchlib.obey({"go": trainer.go, "pause": trainer.pause, "count": trainer.count})
    os._exit(0)  # the training thread may wait for a device that was taken away


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("gpt", "resnet50", "tiny"), default="gpt", help="(%(default)s)")
    parser.add_argument("--batch", type=int, help="sequences (10) or images (256) an iteration")
    args = parser.parse_args()
    trainer = Tiny() if args.model == "tiny" else Trainer((Words if args.model == "gpt" else Pictures)(args.batch))
    benchlib.answer(ready="torch_train", pid=os.getpid(), gpu=torch.cuda.get_device_name(),
                    torch=torch.__version__)
    threading.Thread(target=listen, args=(trainer,), daemon=True).start()
    trainer.train()


main()
