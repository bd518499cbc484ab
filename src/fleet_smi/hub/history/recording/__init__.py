"""From fleet changes to history rows: intervals, usage and samples of each node. Pure."""
