"""HTTP client of a hub: for agents, commands and scripts; imports little, to save memory."""
