"""A real Kubernetes control plane on this machine, without containers and without root.

The API server, controller manager, scheduler, kubectl and etcd are built once from the Go module registry (`build`) and started as plain
processes on loopback (`plane`). People use `python3 hack/cluster up`; tests use `cluster.plane.Plane`. Only the standard library is needed.
"""


class ClusterError(Exception):
    """Something the user can read and act on: its text is the whole message."""
