"""In which mode a job is when a fault meets it."""

from collections.abc import Mapping
from typing import Any

from genericjob.api.names import FINAL_PHASES

MODES = (
    *("none", "Pending", "Running", "Restarting", "RestartingJob", "Debugging"),
    *("Pausing", "Paused", "Resuming", "Succeeded", "Failed", "Deleting"),
)


def mode_of(job: Mapping[str, Any]) -> str:
    """More than a phase: what is going on with a job, by what is stored of it."""
    status, spec = job.get("status") or {}, job["spec"]
    phase = status.get("phase", "Pending")
    if job["metadata"].get("deletionTimestamp"):
        return "Deleting"
    if phase in FINAL_PHASES or phase in ("Paused", "Resuming"):
        return str(phase)
    if status.get("pauseTime"):
        return "Pausing"
    if ((spec.get("runMode") or {}).get("debug") or {}).get("enabled"):
        return "Debugging"
    if phase == "Pending" and status.get("epoch", 0) > 0:
        return "RestartingJob"
    if phase == "Running" and (status.get("aggregate") or {}).get("creating"):
        return "Restarting"
    return str(phase)
