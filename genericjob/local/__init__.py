"""The embedded engine: Kubernetes' API in this process, with the real server's answers."""

from .faults import FaultyApi
from .kinds import Kind
from .memory import MemoryApi
from .watching import MemoryWatch

__all__ = ["FaultyApi", "Kind", "MemoryApi", "MemoryWatch"]
