#!/bin/sh
# Pin every package with hashes, naming no registry: run this after changing a dependency. Needs pip-tools on the PATH.
set -eu
cd "$(dirname "$0")/.."
flags="--quiet --strip-extras --generate-hashes --allow-unsafe --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host"
pip-compile $flags -o requirements/run.txt pyproject.toml requirements/build.in
pip-compile $flags --extra polars --extra spark --extra stats-files --extra excel --extra search --extra pdf --extra rounding --extra sdp -c requirements/run.txt -o requirements/dev.txt pyproject.toml requirements/build.in requirements/dev.in
