#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Whet is built with: Debian packages (packages.txt) and the Python environment (.venv).
#
# The environment lies in the user's cache under the hash of the requirement files, so that clones share it and a
# clean clone costs nothing; .venv is a link to it. Does nothing, in one line, when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing_packages() {
    local package
    grep -Ev '^[[:space:]]*(#|$)' packages.txt | while read -r package; do
        dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
    done
}

install_packages() {
    local missing=("$@") run=()
    if [[ $(id -u) != 0 ]]; then
        command -v sudo >/dev/null || {
            echo "setup: not root and no sudo; please install: ${missing[*]}" >&2
            exit 1
        }
        run=(sudo)
    fi
    echo "setup: installing Debian packages: ${missing[*]}"
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

changed=0
if command -v dpkg-query >/dev/null; then
    mapfile -t missing < <(missing_packages)
    if ((${#missing[@]})); then
        install_packages "${missing[@]}"
        changed=1
    fi
else
    echo "setup: no dpkg here; the packages of packages.txt must be present already" >&2
fi

python=/usr/bin/python3
[[ -x $python ]] || python=python3
key=$({ "$python" --version; cat requirements.txt requirements-nodeps.txt; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/whet
environment=$cache/venv-$key
mkdir -p "$cache"

exec 9>"$cache/venv-$key.lock"
flock 9
if [[ ! -e $environment/complete ]]; then
    echo "setup: making the Python environment in $environment (some minutes, about 6 GB)"
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps -r requirements-nodeps.txt
    touch "$environment/complete"
    changed=1
fi
flock -u 9

if [[ ! -e .venv || -L .venv ]]; then
    [[ $(readlink .venv || true) == "$environment" ]] || { ln -sfn "$environment" .venv; changed=1; }
else
    echo "setup: .venv is a folder of your own and stays; it must hold requirements.txt" >&2
fi
if ((changed)); then echo "setup: done"; else echo "setup: up to date"; fi
