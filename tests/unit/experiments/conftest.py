"""Put the repository's root on the path: experiments is a folder beside src, not an installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
