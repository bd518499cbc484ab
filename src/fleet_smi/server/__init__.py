"""The HTTP server of the hub: the API, the stream of events, the web page and access control."""
