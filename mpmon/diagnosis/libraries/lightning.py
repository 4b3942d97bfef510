"""Lightning and Fabric: ranks that wait in a group's own method, of which no frame of torch is seen."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, collectives

LIBRARY = Library(
    # `_InfiniteBarrier`, around what rank 0 does first or alone.
    waits=(collectives("fabric/utilities/distributed.py", "__call__ __exit__", "monitored_barrier"),),
)
