"""The `genericjob` command, also installed as the kubectl plugin `kubectl gj`. The only room that wires others together."""
