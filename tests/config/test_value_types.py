"""Value types of settings: what each accepts and rejects, and that it can be written back."""

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.config import SETTINGS, Setting, load, resolve, value_types
from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.template import format_value, render_template, to_toml_literal
from fleet_smi.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7070", ListenAddress("127.0.0.1", 7070)),
        (7070, ListenAddress("127.0.0.1", 7070)),
        (":7071", ListenAddress("", 7071)),
        ("[::1]:7070", ListenAddress("::1", 7070)),
        ("[::]:0", ListenAddress("::", 0)),
        ("hub.lab:80", ListenAddress("hub.lab", 80)),
    ],
)
def test_an_address_may_be_written_in_many_ways(text: Any, expected: ListenAddress) -> None:
    assert value_types.ADDRESS.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "hub", "hub:", "::1:7070", "[::1]", "[1]:1", "a b:1", "h:65536", "-h:1", "h:٣", "h:1\n"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address|has a port|has no IPv6"):
        value_types.ADDRESS.parse(text)


def test_hubs_and_nats_servers_may_be_lists() -> None:
    assert value_types.HUB_URLS.parse("http://a:1/, http://b,http://a:1") == "http://a:1,http://b"
    assert value_types.HUB_URLS.parse(["http://a", "http://b"]) == "http://a,http://b"
    urls = value_types.NATS_URLS.parse("nats://a:4222/, b,tls://[::1]:1")
    assert urls == ("nats://a:4222", "nats://b", "tls://[::1]:1")
    for bad in ("http://a", "nats://u:p@a", "nats://a:70000", "nats:// "):
        with pytest.raises(ValueError, match=r"NATS|port"):
            value_types.NATS_URLS.parse(bad)
    with pytest.raises(ValueError, match="is not a URL"):
        value_types.HUB_URLS.parse(" , ")


@pytest.mark.parametrize("text", ["http://hub", "https://hub:7070/gpus/", "http://[::1]:7070"])
def test_a_url_is_taken_without_its_last_slash(text: str) -> None:
    assert value_types.URL.parse(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        "hub:7070", "ftp://hub", "http://", "http://a b", "http://hub:70700", "http://hub\n",
        "http://alice:secret@hub", "http://hub/\x1b", "javascript:alert(1)", "http://hub?x=1",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_hub_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a URL|user or password|has a port"):
        value_types.URL.parse(text)


@pytest.mark.parametrize("written_as", ["{}", "sha256:{}", "SHA256:{}"])
@pytest.mark.parametrize("digits", ["ab" * 32, "AB" * 32, ":".join(["AB"] * 32)])
def test_a_fingerprint_is_one_however_it_is_written(written_as: str, digits: str) -> None:
    assert value_types.FINGERPRINT.parse(written_as.format(digits)) == f"sha256:{'ab' * 32}"


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "", "a\x1bb", " a"])
def test_a_host_that_ssh_would_take_for_something_else_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host|must not be empty"):
        value_types.SSH_HOSTS.parse([host])


@pytest.mark.parametrize("path", ["", "reports", "./x", "~nobody-at-all/x", "/a\0b", "/a\nb"])
def test_a_relative_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"absolute path|null byte"):
        value_types.PATH.parse(path)


def test_only_the_last_part_of_a_path_may_be_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "lab[1]").mkdir()
    sound = ["/nfs/status-gpu", "/nfs/status-gpu/cml*", f"{tmp_path}/lab[1]/cml?"]
    assert value_types.PATHS.parse(sound) == tuple(sound)
    with pytest.raises(ValueError, match="has a pattern before its last part"):
        value_types.PATHS.parse(["/nfs/*/cml10"])


def test_a_network_must_be_one() -> None:
    assert value_types.NETWORKS.parse(["10.0.0.0/8", "::1"]) == ("10.0.0.0/8", "::1/128")
    for wrong in ("10.0.0.1/8", "localhost", 5):
        with pytest.raises(ValueError, match="is not an IP address or a network"):
            value_types.NETWORKS.parse([wrong])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (value_types.SIZE, 32 << 20, "32MiB"),
        (value_types.SIZE, 1000, 1000),
        (value_types.DURATION, 600.0, "10min"),
        (value_types.INTERVAL, 0.5, "0.5s"),
        (value_types.INTERVAL, 86400.0, "1d"),
        (value_types.MODE, 0o600, "0600"),
        (value_types.ADDRESS, ListenAddress("::1", 1), "[::1]:1"),
    ],
)
def test_values_are_formatted_for_people(
    kind: value_types.ValueType, value: Any, text: Any
) -> None:
    assert kind.format(value) == text
    assert kind.parse(text) == value


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_what_is_written_is_read_as_it_was(setting: Setting) -> None:
    for value in (setting.default, setting.example):
        if value is not None:
            text = f"x = {to_toml_literal(setting.value_type.format(value))}"
            assert setting.value_type.parse(tomllib.loads(text)["x"]) == value


def test_a_secret_is_never_written() -> None:
    (token,) = (setting for setting in SETTINGS if setting.name == "client.token")
    assert format_value(token, "hunter2") == "set, not shown"
    assert format_value(token, None) is None


def test_the_sample_says_nothing_until_a_line_is_uncommented(tmp_path: Path) -> None:
    file = tmp_path / "fleet-smi.toml"
    file.write_text(render_template())
    named = {"FLEET_SMI_CONFIG": str(file)}
    assert load(named) == load({})
    rivals = ("#tls = ", *(f"#{each.key}_file" for each in SETTINGS if each.is_secret))
    lines = render_template().splitlines()
    chosen = [line for line in lines if not line.startswith(("# ", *rivals))]
    file.write_text("\n".join(line.removeprefix("#") for line in chosen))
    read = resolve(named)
    assert not read.problems
    for setting in SETTINGS:
        expected = setting.default if setting.example is None else setting.example
        if f"#{setting.key} = " not in "".join(f"{rival} = " for rival in rivals):
            assert read.values[setting.name].value in (expected, None), setting.name


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(setting=st.sampled_from(SETTINGS), value=plain | st.text(alphabet="a1:/@[]{}~.-=, \x1b\0"))
def test_any_value_is_taken_or_refused_with_its_place(setting: Setting, value: Any) -> None:
    try:
        load({setting.environment_variable: value})
    except UsageError as error:
        assert str(error).startswith(f"{setting.environment_variable}: ")
        assert str(error).isprintable()
        assert len(str(error)) < 500


toml_values = st.sampled_from(
    ["", "1", "-1", "1e999", "nan", "true", '"x"', '"\\u001b"', "[]", "[1]", "[[]]", '["-x"]', "{}",
     "{a=1}", "1979-05-27", "07:32:00", "'", "[", '"""', "0x", "٣", '"http://u:p@h"']
)  # fmt: skip
keys = st.sampled_from([*(setting.key for setting in SETTINGS), "x", '"a b"', "name.x", "a.b.c"])
headers = st.sampled_from(["[node]", "[hub]", "[[agent]]", "[client.x]", "[x]", "[", ""])


@given(st.lists(st.one_of(headers, st.builds("{} = {}".format, keys, toml_values)), max_size=6))
def test_any_file_is_read_or_refused_with_its_place(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "any.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        for problem in resolve({"FLEET_SMI_CONFIG": str(file)}).problems:
            assert problem.origin.source == str(file)
            assert 1 <= (problem.origin.line or 1) <= max(1, len(lines))
            assert problem.message.isprintable()
