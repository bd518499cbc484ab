"""Terminal screens: colours and text width, and one view per command."""
