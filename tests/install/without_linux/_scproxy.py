"""Stands in for the module by which Python reads the proxy settings of macOS."""


def _get_proxy_settings() -> dict[str, object]:
    return {}


def _get_proxies() -> dict[str, str]:
    return {}
