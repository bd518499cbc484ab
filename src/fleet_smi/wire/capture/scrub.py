"""Scrub the raw readings of each subject, so that they still parse and say the same of the GPUs."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from fleet_smi.wire.capture.private_text import MAX_TEXT, TextScrubber, has_uuid, is_private

_SECRET_KEY = re.compile(
    r"serial|unique.?id|guid|\bpdi\b|machine.?id|boot.?id|host.?name|vm_name", re.I
)
_NAME_KEY = re.compile(r"process.?name|command|user(?:name)?\Z", re.I)
_UUID_KEY = re.compile(r"uuid", re.I)
_MARKUP = re.compile(r"(<[^<>]*>|\A)([^<]*)")
_TAG = re.compile(r"<([\w.:-]+)")
_PID_KEY = re.compile(r"PID\d+", re.ASCII)
_PS_ROW = re.compile(r"(?m)^(\s*\d+\s+)(\S+)")
_UID_PART = re.compile(r"(user-|uid_|user@)(\d+)")
# Components of cgroup paths that say how a process was started, and nothing else.
_CGROUP_PART = re.compile(
    r"\d*|\d+:[\w,=.-]*:|(?:user|system|machine|init|app|background|session)\.(?:slice|scope)"
    r"|session-c?\d+\.scope|kubepods\S*|docker|lxc(?:\.payload|\.monitor)?|ecs|garden|libpod_parent"
    r"|slurm\w*|slurmstepd\.scope|job_\d+|step_\w+|task_\w+|(?:user-|uid_)\d+(?:\.slice)?"
    r"|user@\d+\.service|cpuset|memory|devices|containerd(?:\.service)?|docker\.service",
    re.ASCII,
)
_CONTAINER_PART = re.compile(
    r"((?:docker|libpod|cri-containerd|crio|containerd|garden|lxc\.payload)[-:.])?([0-9a-f]{12,64})"
    r"(\.scope)?",
    re.I,
)


class Scrubber:
    """Scrubs readings, subject by subject."""

    def __init__(self, texts: TextScrubber) -> None:
        self._texts = texts
        self._subjects: dict[str, Callable[[Any], Any]] = {
            "processes": self._processes,
            "leases": self._leases,
            "network": self._network,
            "host": self._walk,
        }

    def reading(self, subject: str, value: Any) -> Any:
        """Return what a binding returned, without what is private in it."""
        return self._subjects.get(subject, self._walk)(value)

    def output(self, text: str) -> str:
        """Return what a program printed, without what is private in it."""
        text = text[:MAX_TEXT]
        if "</" in text:
            return _MARKUP.sub(self._markup, text)
        return self._json(text) or _PS_ROW.sub(self._ps_row, self._texts.text(text))

    def _walk(self, value: Any, key: str = "", above: str = "") -> Any:
        """Scrub every text of a value; keys say what kind it is."""
        if isinstance(value, dict):
            return {
                self._key(name): self._walk(item, str(name), key or above)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)([self._walk(item, key, above) for item in value])
        if isinstance(value, bytes):
            return self._walk(value.decode("latin-1"), key, above).encode("latin-1", "replace")
        if isinstance(value, int) and not isinstance(value, bool) and _SECRET_KEY.search(key):
            return self._texts.pseudonyms.replace("serial", str(value)) if value else value
        return self._leaf(value, key, above) if isinstance(value, str) else value

    def _key(self, name: Any) -> Any:
        return self._texts.text(name) if isinstance(name, str) else name

    def _leaf(self, text: str, key: str, above: str) -> str:
        if not is_private(text):
            return text
        if key in ("machine_id", "boot_id"):
            return self._id(text)
        if _SECRET_KEY.search(key):
            return self._secret(text, key)
        if _PID_KEY.fullmatch(key):  # of rocm-smi: the name, then figures
            name, comma, figures = text.partition(",")
            return self._texts.program(name) + comma + figures
        if _NAME_KEY.search(key) or (key == "name" and "process" in above):
            return self._texts.program(text)
        return self.output(text) if len(text) > 80 or "\n" in text else self._texts.text(text)

    def _secret(self, text: str, key: str) -> str:
        """Return a pseudonym of the same form: a UUID, a hexadecimal number, a name."""
        if has_uuid(text):
            return self._texts.text(text)
        if "serial" in key.lower() and not text.startswith("0x"):
            return self._texts.name("serial", text)
        if found := re.fullmatch(r"(0x)?([0-9a-fA-F]{6,64})", text):
            return (found[1] or "") + self._texts.pseudonyms.replace("id", found[2])
        kind = "host" if "host" in key.lower() else "serial"
        return self._texts.name(kind, text)

    def _id(self, text: str) -> str:
        if has_uuid(text):
            return self._texts.text(text)
        return self._texts.pseudonyms.replace("id", text)

    def _markup(self, found: re.Match[str]) -> str:
        """Scrub the text after a tag of XML; the tags stay."""
        tag, text = found[1], found[2]
        if not text.strip():
            return found[0]
        name = _TAG.match(tag)
        return tag + self._leaf_of_xml(text, name[1] if name else "")

    def _leaf_of_xml(self, text: str, tag: str) -> str:
        value = text.strip()
        if not is_private(value):
            return text
        if tag == "process_name":
            return self._texts.program(value)
        if _SECRET_KEY.search(tag) and not _UUID_KEY.search(tag):
            return self._secret(value, tag)
        return self._texts.text(text)

    def _json(self, text: str) -> str | None:
        """Scrub JSON, with what a program printed before it; `None` where it is none."""
        starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
        if not starts:
            return None
        before, document = text[: min(starts)], text[min(starts) :]
        try:
            value = msgspec.json.decode(document)
        except (ValueError, RecursionError):
            return None
        plain = msgspec.json.format(msgspec.json.encode(self._walk(value)), indent=1)
        return self._texts.text(before) + plain.decode()

    def _ps_row(self, found: re.Match[str]) -> str:
        """Scrub the row of a process in a table: its pid, then its name."""
        number = found[2].replace(".", "").replace(",", "")
        return found[0] if number.isdigit() else found[1] + self._texts.program(found[2])

    def _processes(self, value: dict[int, Any]) -> dict[int, Any]:
        return {pid: facts and self._process(facts) for pid, facts in value.items()}

    def _process(self, facts: dict[str, Any]) -> dict[str, Any]:
        name = self._texts.program(facts["name"].decode("latin-1")).encode("latin-1", "replace")
        return {
            **facts,
            "uid": self._uid(facts["uid"]),
            "user": facts["user"] and self._texts.name("user", facts["user"]),
            "group": facts["group"] and self._texts.name("group", facts["group"]),
            "name": name,
            # A kernel thread or a zombie has no command line, and that is worth knowing.
            "command": facts["command"] and name,
            "cgroup": facts["cgroup"] and self._cgroup(facts["cgroup"]),
        }

    def _uid(self, uid: int | None) -> int | None:
        # Those below belong to the system on every machine.
        if uid is None or uid < 1000 or uid == 65534:
            return uid
        return self._texts.pseudonyms.replace_number("uid", uid)

    def _cgroup(self, text: str) -> str:
        return "\n".join(
            "/".join(map(self._cgroup_part, line.split("/"))) for line in text.splitlines()
        )

    def _cgroup_part(self, part: str) -> str:
        if found := _CONTAINER_PART.fullmatch(part):
            identity = self._texts.pseudonyms.replace("id", found[2])
            return f"{found[1] or ''}{identity}{found[3] or ''}"
        scrubbed = _UID_PART.sub(lambda uid: uid[1] + str(self._uid(int(uid[2][:9]))), part)
        if _CGROUP_PART.fullmatch(scrubbed):
            return self._texts.text(scrubbed)
        pod = self._texts.text(scrubbed)
        if re.fullmatch(r"pod[0-9a-f-]{36}", pod):
            return pod
        base, dot, suffix = part.rpartition(".")
        if dot and suffix in ("slice", "scope", "service"):
            return f"{self._texts.pseudonyms.replace('name', base)}.{suffix}"
        return self._texts.pseudonyms.replace("name", part)

    def _leases(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                **row,
                "uuid": self._texts.text(row["uuid"]),
                "uid": self._uid(row["uid"]),
                "user": row["user"] and self._texts.name("user", row["user"]),
                # What its holder wrote is theirs; only the times say something of the GPU.
                "details": {
                    key: text for key, text in row["details"].items() if key in ("since", "until")
                },
            }
            for row in value
        ]

    def _network(self, value: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(f"net{at}", self._texts.text(address)) for at, (_, address) in enumerate(value)]
