#!/bin/sh
# Unpack the VictoriaMetrics of Debian 13 into a folder, where that of the system is too old to
# receive OpenTelemetry metrics. Nothing is installed; apt checks the signatures.
set -eu
folder=$1
if victoria-metrics --help 2>&1 | grep -q opentelemetry || [ -x "$folder/victoria-metrics" ]; then exit 0; fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
command -v apt-get >/dev/null && [ -f $keys ] || exit 0
# Where this machine gets Debian from.
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$') || exit 0
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
cd "$folder"
echo "deb [signed-by=$keys] $mirror trixie main" > sources.list
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o Acquire::Languages=none \
        -o APT::Sandbox::User=root "$@"
}
apt update
apt download victoria-metrics
dpkg --fsys-tarfile victoria-metrics*.deb | tar --extract --strip-components=3 ./usr/bin/victoria-metrics
rm -rf ./*.deb lists cache
