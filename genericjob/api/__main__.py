"""`python -m genericjob.api`: print the CRD, for `manifests/crd` (see `make manifests`)."""

import sys

from .crd import manifest

sys.stdout.write(manifest())
