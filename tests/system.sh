#!/bin/sh
# Installs what the tests need from Debian, as root; otherwise says loudly what will be skipped.
set -u
PATH="$PATH:/usr/sbin:/sbin" # where ldconfig is
have() { command -v "$1" >/dev/null 2>&1; }
library() { ldconfig -p 2>/dev/null | grep -q "$1"; }

wanted="" skipped=""
# need <what is there already?> <packages> <what is tested with them>
need() {
  if eval "$1"; then return; fi
  wanted="$wanted $2"
  skipped="$skipped* $3 will be SKIPPED.
*   To run them: apt-get install $2
"
}
checks() {
  wanted="" skipped=""
  need 'have java' 'openjdk-17-jre-headless' 'The Spark tests (no Java here)'
  need 'have chromium || have chromium-browser || have google-chrome' 'chromium' 'The tests of the interactive chart (no Chromium here)'
  need 'library libpango-1.0.so.0 && library libpangoft2-1.0.so.0 && library libharfbuzz-subset.so.0' \
    'libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0' 'The tests of reports as PDF (no Pango for WeasyPrint here)'
}

checks
if [ -z "$wanted" ]; then exit 0; fi
if [ "$(id -u)" = 0 ] && have apt-get; then
  echo "Installing from Debian, for the tests:$wanted ..."
  apt-get update -qq >/dev/null 2>&1
  for package in $wanted; do # one by one, so that one that is not to be had does not keep the others away
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1
  done
  checks
fi
if [ -n "$wanted" ]; then
  echo "**********************************************************************"
  printf '%s' "$skipped"
  echo "**********************************************************************"
fi
exit 0
