"""The embedded engine: Kubernetes' API in this process, with the real server's answers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .faults import FaultyApi
    from .kinds import Kind
    from .memory import MemoryApi
    from .watching import MemoryWatch

__all__ = ["FaultyApi", "Kind", "MemoryApi", "MemoryWatch"]
_MODULES = {"FaultyApi": "faults", "Kind": "kinds", "MemoryApi": "memory", "MemoryWatch": "watching"}


def __getattr__(name: str) -> Any:
    """Load the engine when it is needed: a command that only asks which runs there are does without."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
