#!/usr/bin/env bash
# Makes a tarball of the binary, its manual pages, its completions and its systemd unit, to be unpacked at /.
#   cargo build --locked --release -p segno && deploy/tarball/build.sh target/release/segno
# The tarball is written to the current directory.
set -euo pipefail

binary=${1:?usage: build.sh BINARY}
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | head -n 1 | cut -d ' ' -f 2)
name=segno-$version-linux-$(uname -m)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

"$here/stage.sh" "$binary" "$root"
# Directories that are there already keep their owners and modes.
(cd "$root" && find . -type f -printf '%P\n' | LC_ALL=C sort) |
  tar --create --gzip --file "$name.tar.gz" --directory "$root" --owner=0 --group=0 --numeric-owner --files-from -
echo "$name.tar.gz"
