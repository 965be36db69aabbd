"""Helion's autotuner over pallasc's configurations, by pallasc's estimates.

Without a TPU there is nothing to time: its searches ask a benchmark provider, and this one answers
with the compiler's estimate, or that the configuration is refused. On a TPU Helion's own provider
times what pallasc compiled.
"""

import math
import time

from helion.autotuner import benchmark_provider

from ..errors import PallascError


def estimates_provide(search, used):
    """Have one of Helion's searches ask for estimates in the place of times."""
    search._benchmark_provider_cls = lambda **named: Estimates(used, **named)
    search.final_selection = None  # which would time the finalists
    search.rebenchmark = lambda members, **_: None  # an estimate is the same again


class Estimates(benchmark_provider.BenchmarkProvider):
    """A benchmark provider whose times are estimates: the same each time, in milliseconds."""

    mutated_arg_indices = ()

    def __init__(self, used, kernel, settings, config_spec, args, log, autotune_metrics):
        self.used, self.kernel, self.args, self.log = used, kernel, args, log
        self.metrics = autotune_metrics

    def benchmark(self, configs, *, desc="Benchmarking", raise_if_no_viable_config=True, **_):
        """Return a BenchmarkResult of each configuration."""
        results = [self.judged(config) for config in configs]
        self.metrics.num_configs_tested += len(results)
        return results

    def judged(self, config):
        """Compile one configuration as it is: a refused one takes for ever."""
        from .calls import CompiledKernel, RefusedError

        def refuse(*_):
            raise RefusedError("refused")

        compiled = CompiledKernel(self.used, self.kernel, config, refuse, rows={})
        started = time.perf_counter()
        try:
            perf, status = compiled.estimate(self.args) * 1e3, "ok"
        except PallascError:
            perf, status = math.inf, "error"
            self.metrics.num_compile_failures += 1
        spent = time.perf_counter() - started
        return benchmark_provider.BenchmarkResult(
            config=config, fn=compiled, perf=perf, status=status, compile_time=spent
        )

    def setup(self):
        """Nothing is needed."""

    def cleanup(self):
        """Nothing is left."""
