"""Sites: the fleets of other hubs, shown read-only beside the own one."""
