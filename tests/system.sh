#!/bin/sh
# Installs what the tests need from Debian, as root; otherwise says loudly what will be skipped.
set -u
have() { command -v "$1" >/dev/null 2>&1; }
if have java; then exit 0; fi
if [ "$(id -u)" = 0 ] && have apt-get; then
  echo "Installing Java for the Spark tests (Debian package openjdk-17-jre-headless)..."
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1 && exit 0
fi
echo "**********************************************************************"
echo "* No Java here, and not root: the Spark tests will be SKIPPED.       *"
echo "* To run them: apt-get install openjdk-17-jre-headless               *"
echo "**********************************************************************"
