"""The configurations that Helion's own random search would try of a kernel: its default first.

    python bench/helion_draws.py FILE.py:KERNEL COUNT SEED ARG...

prints a JSON list. Helion's other searches begin with such a population too, of 100 and more. What
runs the kernels is up to the caller: Helion asks a TPU.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import helion_kernel


def drawn(kernel, args, count, seed):
    """[configuration, a dict]; of a process of its own, for Helion reads its environment once."""
    words = [sys.executable, __file__, kernel, str(count), str(seed), *args]
    environment = {**os.environ, **helion_kernel.environment()}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main(kernel, count, seed, *args):
    """Prints them."""
    import torch

    random.seed(int(seed))
    torch.manual_seed(int(seed))
    bound = helion_kernel.bind(kernel, tuple(helion_kernel.values(args)), interpret=False)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        generation = bound.config_spec.create_config_generation()
        found = generation.random_population(int(count))
    print(json.dumps([dict(config) for config in found]))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    main(*sys.argv[1:])
