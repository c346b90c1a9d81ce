# SPDX-License-Identifier: Apache-2.0
"""The software GPU gives the answers that real drivers gave: tests/judge/expected-*.txt."""
import glob
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake  # noqa: E402


def judge(path):
    """What differs, in lines. All that a kernel survives is in its file, and nothing else."""
    with open(path) as f:
        text = f.read().splitlines()
    minor = int(re.search(r"KFD 1\.(\d+)", text[0]).group(1))
    wanted = [line for line in text if not line.startswith("#")]
    return minor, wanted, fake.run_fake(minor, fake.CRASHES not in text)


def main():
    paths = sorted(glob.glob(os.path.join(fake.HERE, "expected-*.txt")))
    assert paths, "no expected-*.txt"
    different = 0
    # They mostly wait.
    with ThreadPoolExecutor(len(paths)) as pool:
        for path, (minor, wanted, got) in zip(paths, pool.map(judge, paths)):
            n = fake.compare(wanted, got, "driver", "fake")
            print(f"{os.path.basename(path)}: KFD 1.{minor}: {len(wanted)} cases, {n} different")
            different += n
    sys.exit(1 if different else 0)


main()
