#!/bin/sh
# Makes the virtual environment: venv.sh PYTHON FOLDER. On a bare Debian, as root, it installs the venv package first.
set -eu
python=$1 folder=$2
command -v "$python" >/dev/null 2>&1 || { echo "sfumato needs Python 3.11 or later; there is no $python here." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "sfumato needs Python 3.11 or later; $python is $("$python" -V 2>&1). Try: make PYTHON=python3.11 ..." >&2; exit 1; }
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  echo "This Python has no venv; installing Debian's package..." >&2
  [ "$(id -u)" = 0 ] || { echo "Not root: please run  apt-get install python3-venv  first." >&2; exit 1; }
  apt-get update -qq >/dev/null && apt-get install -y -qq python3-venv >/dev/null
fi
rm -rf "$folder"
"$python" -m venv "$folder"
