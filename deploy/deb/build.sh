#!/usr/bin/env bash
# Makes a Debian package of the binary, its manual pages, its completions and its systemd unit.
#   cargo build --locked --release -p segno && deploy/deb/build.sh target/release/segno
# The package is written to the current directory. Needs dpkg-deb.
set -euo pipefail

binary=${1:?usage: build.sh BINARY}
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | head -n 1 | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
# The C library that the binary was built for: the newest version of a symbol that it names.
libc=$(grep -ao 'GLIBC_2\.[0-9]*' "$binary" | sort -uV | tail -n 1 | cut -d _ -f 2 || true)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

"$here/stage.sh" "$binary" "$root"
install -d "$root/DEBIAN"
install -m 0755 "$here/deb/postinst" "$here/deb/prerm" "$here/deb/postrm" "$root/DEBIAN/"
cat > "$root/usr/share/doc/segno/copyright" <<COPYRIGHT
Copyright: The Segno authors
License: MIT or Apache-2.0. Their texts are beside this file, LICENSE-MIT and LICENSE-APACHE.
COPYRIGHT
chmod 0644 "$root/usr/share/doc/segno/copyright"
cat > "$root/DEBIAN/control" <<CONTROL
Package: segno
Version: $version
Architecture: $architecture
Maintainer: The Segno authors <segno@localhost>
Depends: libc6${libc:+ (>= $libc)}, libgcc-s1
Section: net
Priority: optional
Description: durable workflow server that speaks Temporal's protocol
 Segno runs workflows that survive crashes of workers, servers and machines.
 It keeps its state in one local file, or in PostgreSQL.
CONTROL
dpkg-deb --root-owner-group --build "$root" "segno_${version}_${architecture}.deb"
