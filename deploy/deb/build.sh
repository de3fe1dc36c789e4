#!/usr/bin/env bash
# Makes a Debian package of the binary, its manual pages, its completions and its systemd unit.
#   cargo build --locked --profile dist -p segno && deploy/deb/build.sh target/dist/segno
# The package is written to the current directory. Needs dpkg-deb.
set -euo pipefail

binary=${1:?usage: build.sh BINARY}
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | head -n 1 | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

install -D -m 0755 "$binary" "$root/usr/bin/segno"
install -D -m 0644 "$here/systemd/segno.service" "$root/lib/systemd/system/segno.service"
install -D -m 0644 "$here/segno.toml" "$root/usr/share/doc/segno/segno.toml"
install -d "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
  "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d" "$root/DEBIAN"
"$binary" man --directory "$root/usr/share/man/man1"
gzip -9 -n "$root"/usr/share/man/man1/*.1
"$binary" completions bash > "$root/usr/share/bash-completion/completions/segno"
"$binary" completions zsh > "$root/usr/share/zsh/vendor-completions/_segno"
"$binary" completions fish > "$root/usr/share/fish/vendor_completions.d/segno.fish"

cat > "$root/DEBIAN/control" <<CONTROL
Package: segno
Version: $version
Architecture: $architecture
Maintainer: The Segno authors <segno@localhost>
Depends: libc6
Section: net
Priority: optional
Description: durable workflow server that speaks Temporal's protocol
 Segno runs workflows that survive crashes of workers, servers and machines.
 It keeps its state in one local file, or in PostgreSQL.
CONTROL
dpkg-deb --root-owner-group --build "$root" "segno_${version}_${architecture}.deb"
