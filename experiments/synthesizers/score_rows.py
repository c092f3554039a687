"""SDMetrics' quality score of rows: python score_rows.py REAL.npz DRAWN.npz prints one number."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sdmetrics.reports.single_table import QualityReport


def main() -> None:
    frames = []
    for path in sys.argv[1:3]:
        codes = np.load(path)["codes"]
        frames.append(pd.DataFrame({f"c{k}": [f"v{v}" for v in column] for k, column in enumerate(codes.T)}))
    told = {"columns": {name: {"sdtype": "categorical"} for name in frames[0]}}
    report = QualityReport()
    report.generate(frames[0], frames[1], told, verbose=False)
    print(report.get_score())


if __name__ == "__main__":
    main()
