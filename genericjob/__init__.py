"""GenericJob: distributed jobs on Kubernetes, in Python, at the speed of the API server."""

__version__ = "0.1.0"
