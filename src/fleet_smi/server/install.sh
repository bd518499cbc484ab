#!/bin/sh
# Installs the agent of fleet-smi from a hub, lets this machine join, and starts it as a service:
#
#   echo TOKEN | sh install URL [--fingerprint sha256:…] [--insecure-http] [--dry-run]
#
# `fleet-smi hub join-command` prints the whole line. It needs Python 3.10 or later, no pip and no
# internet. Root installs it for the machine, in /opt/fleet-smi-agent and as a system service; any
# other user for themselves, in ~/.local/share/fleet-smi-agent.
set -u
umask 022

fail() {
    echo "fleet-smi: $*" >&2
    exit 1
}

write_files() {
    mkdir -p "$folder/fleet_smi/node/bindings" &&
        : >"$folder/fleet_smi/__init__.py" &&
        : >"$folder/fleet_smi/node/__init__.py" &&
        : >"$folder/fleet_smi/node/bindings/__init__.py" || return
#FILES#
}

# The first Python that a wheel of the hub fits; else the first that is new enough.
choose_python() {
    usable='' old=''
    for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
        python=$(command -v "$name") || continue
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            continue
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
            usable=${usable:-$python}
            run_installer --fits none </dev/null && return
        else
            old=${old:-"$python is Python $version"}
        fi
    done
    python=$usable
    [ -n "$python" ] || fail "${old:-there is no python3 here}: install Python 3.10 or later," \
        "or let the hub read this machine over ssh (hub.ssh)"
}

run_installer() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$folder \
        "$python" -m fleet_smi.node.bindings.agent_install --wheels "$folder/wheels" "$@"
}

# In a function: a script that was cut short runs nothing.
main() {
    folder=$(mktemp -d) || fail "no temporary folder can be made: is the disk full?"
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
    write_files || fail "cannot write to $folder: is the disk full?"
    choose_python
    run_installer "$@"
}

main "$@"
