"""The parts of the live screen as lines of spans, pure: no terminal, no clock."""
