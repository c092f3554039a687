"""What holds for every test: in CI, hypothesis tries the same examples each time, so that a red run can be repeated."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
