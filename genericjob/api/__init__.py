"""What users write and read: the spec and status of each kind, its names, and the CRD made of them. No I/O."""
