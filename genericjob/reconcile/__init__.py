"""The framework: one door to a cluster, and what a reconciler needs behind it. It knows Kubernetes and no job kind."""
