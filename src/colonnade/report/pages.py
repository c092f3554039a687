"""One sentence where what a page needs is not installed: it is asked before report/html is loaded."""

from __future__ import annotations

from importlib.util import find_spec

from colonnade.foundation.errors import StudyError


def require(*modules: str) -> None:
    """Refuse where the extra "page" is not installed."""
    for module in modules or ("jinja2",):
        if find_spec(module) is None:
            raise StudyError(f"a page needs {module}, which is not installed: pip install 'colonnade[page]'")
