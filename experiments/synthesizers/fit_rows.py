"""Rows from AIM or MST of the package dpmm at its own settings: python fit_rows.py METHOD IN.npz OUT.npz EPSILON DELTA.

IN holds `codes` (records x columns, level numbers) and `sizes` (levels of each column). OUT gets `codes` of as many
drawn records; `seconds` of CPU, or of the clock where a GPU did the inference; `device`; and how many `megabytes` and
`tables` the model has. The package's noise does not come from its seed: a run cannot be made again.

--inference gpu needs CuPy and a GPU; it runs with numpy 2 and scipy 1.18 as well as with the pinned ones, but with
pandas below 3.

The package draws rows from a model that it fits anew from nothing; the code of AIM's authors goes on from the model of
the last round, which --warm does too.

The package's guarantee is for adding or removing a record, under zero-concentrated privacy (rho). If one record is
replaced, a table moves by sqrt 2 in L2, not 1, so rho of its Gaussian noise doubles; the scores of the exponential
mechanism, L1 distances to a table, move by 2, not 1, so rho of a choice is four times as large. AIM spends nine tenths
on noise and a tenth on choices: 2.2 times in all, or a little less, for its first tables are not chosen. MST spends two
thirds and a third: 8/3. EPSILON is that of replacing one record unless --add-remove is given.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.base.mechanisms.cdp2adp import cdp_eps, cdp_rho
from dpmm.models.mst import MSTGM

REPLACE = {"AIM": 2.2, "MST": 8 / 3}
"""By how much rho of replacing a record is larger than that of adding or removing one."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=["AIM", "MST"])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("epsilon", type=float)
    parser.add_argument("delta", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add-remove", action="store_true")
    parser.add_argument("--megabytes", type=float, default=80, help="AIM's largest model; its authors ask for 80")
    parser.add_argument("--iterations", type=int, default=1000, help="of AIM's inference; its authors ask for 1000")
    parser.add_argument("--inference", choices=["package", "numpy", "gpu"], default="package", help="see fast_aim.py")
    parser.add_argument("--warm", action="store_true", help="AIM's last fit begins where its rounds ended")
    options = parser.parse_args()
    if options.inference != "package":
        import fast_aim

        fast_aim.install(fast_aim.sums_by(options.inference))
    held = np.load(options.source)
    names = [f"c{k}" for k in range(held["codes"].shape[1])]
    frame = pd.DataFrame(held["codes"].astype(int), columns=names)
    epsilon = options.epsilon
    if not options.add_remove:
        epsilon = cdp_eps(cdp_rho(options.epsilon, options.delta) / REPLACE[options.method], options.delta)
    shared = {"epsilon": epsilon, "delta": options.delta, "n_jobs": 1}
    shared["domain"] = dict(zip(names, held["sizes"].tolist(), strict=True))
    random = np.random.RandomState(options.seed)
    if options.method == "AIM":
        model = AIMGM(max_model_size=options.megabytes, n_iters=options.iterations, random_state=random, **shared)
    else:
        model = MSTGM(**shared)
    model.set_random_state(random)
    on_gpu = options.inference == "gpu"
    clock = time.monotonic if on_gpu else time.process_time
    start = clock()
    model.fit(frame)
    if options.warm:
        model.generator.model = model.generator.engine.estimate(model.generator.measures)
    rows = model.generate(n_records=len(frame))
    told = {"seconds": clock() - start, "device": "GPU" if on_gpu else "CPU"}
    told |= {"megabytes": model.generator.model.size * 8 / 2**20, "tables": len(model.generator.measures)}
    np.savez_compressed(options.target, codes=rows[names].to_numpy(np.int64), **told)


if __name__ == "__main__":
    main()
