"""The MCP server: what an assistant asks about the fleet, answered as the commands answer it."""
