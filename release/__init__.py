"""Scripts of a release: pinned requirements, and the files that are published."""
