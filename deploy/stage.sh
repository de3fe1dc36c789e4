#!/usr/bin/env bash
# Puts what is installed below a directory, for the packages: stage.sh BINARY DIRECTORY. Other scripts here call it.
set -euo pipefail

binary=${1:?usage: stage.sh BINARY DIRECTORY} root=${2:?usage: stage.sh BINARY DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)

install -D -m 0755 "$binary" "$root/usr/bin/segno"
install -D -m 0644 "$here/systemd/segno.service" "$root/lib/systemd/system/segno.service"
for file in segno.toml grafana/segno.json prometheus/alerts.yml; do
  install -D -m 0644 "$here/$file" "$root/usr/share/doc/segno/examples/$(basename "$file")"
done
for file in LICENSE-APACHE LICENSE-MIT; do
  install -D -m 0644 "$here/../$file" "$root/usr/share/doc/segno/$file"
done
install -d "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
  "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$binary" man --directory "$root/usr/share/man/man1"
gzip -9 -n "$root"/usr/share/man/man1/*.1
"$binary" completions bash > "$root/usr/share/bash-completion/completions/segno"
"$binary" completions zsh > "$root/usr/share/zsh/vendor-completions/_segno"
"$binary" completions fish > "$root/usr/share/fish/vendor_completions.d/segno.fish"
