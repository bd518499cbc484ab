"""The sites of the settings: the URL, token and certificate of each."""

from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import UsageError
from fleet_smi.hub.sites.sites import Site


def read_sites(settings: HubSettings) -> list[Site]:
    """Return the sites that the settings name; raise `UsageError` if they contradict."""
    tokens, token = settings.read_site_tokens(), settings.read_site_token()
    for file, names in (
        ("hub.site_tokens_file", tokens),
        ("hub.site_fingerprints", settings.site_fingerprints),
    ):
        unknown = sorted(set(names) - set(settings.sites))
        if unknown:
            raise UsageError(f"{file}: {unknown[0]} is not in hub.sites")
    return [
        Site(name, url, tokens.get(name, token), settings.site_fingerprints.get(name))
        for name, url in settings.sites.items()
    ]
