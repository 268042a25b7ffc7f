#!/usr/bin/env bash
# Makes $VENV with the project, torch and the development tools in it. Safe to run again.
set -euo pipefail
python=${PYTHON:-python3}; venv=${VENV:-.venv}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# An exact torch, so that a second run installs nothing and every machine tests the same one.
"$venv/bin/python" -m pip install -q --disable-pip-version-check "torch==2.13.0"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -e '.[dev,cuda]'
