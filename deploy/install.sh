#!/bin/sh
# Installs Segno from a release: takes its tarball, checks signature and checksum, and unpacks it below a prefix.
#   sh install.sh --from URL-OR-DIRECTORY [--prefix DIRECTORY] [--key FILE] [--unsigned]
# The prefix is /usr/local for root, else ~/.local. The key is the public one of the release, in PEM; the install.sh of a signed
# release has it. Needs curl (for a URL), sha256sum, tar, and openssl 3 for the signature.
set -eu

version=''
key=''

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

from='' key_file='' unsigned=''
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
while [ $# -gt 0 ]; do
  case $1 in
    --unsigned) unsigned=yes && shift && continue ;;
    --from | --prefix | --key | --version) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    *) fail "unknown option $1" ;;
  esac
  case $1 in
    --from) from=$2 ;;
    --prefix) prefix=$2 ;;
    --key) key_file=$2 ;;
    --version) version=$2 ;;
  esac
  shift 2
done
[ -n "$from" ] || fail "--from must name the release: a URL or a directory"
[ -n "$version" ] || fail "--version is needed: this file is not of a release"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Puts a file of the release into the directory.
take() {
  case $from in
    http://* | https://*) curl --fail --silent --show-error --location --output "$directory/$1" "${from%/}/$1" ;;
    *) cp "$from/$1" "$directory/$1" ;;
  esac || fail "$1 cannot be had from $from"
}

take SHA256SUMS
if [ -n "$key_file" ]; then
  cp "$key_file" "$directory/key.pem"
elif [ -n "$key" ]; then
  printf '%s\n' "$key" > "$directory/key.pem"
fi
if [ -n "$unsigned" ]; then
  echo "The signature is not checked (--unsigned)."
elif [ -f "$directory/key.pem" ]; then
  take SHA256SUMS.sig
  openssl pkeyutl -verify -rawin -pubin -inkey "$directory/key.pem" -in "$directory/SHA256SUMS" \
    -sigfile "$directory/SHA256SUMS.sig" > /dev/null 2>&1 || fail "the signature of SHA256SUMS is wrong; nothing was installed"
else
  fail "no key to check the signature with; --unsigned installs without"
fi

name=segno-$version-linux-$(uname -m)
take "$name.tar.gz"
(cd "$directory" && grep -F "  $name.tar.gz" SHA256SUMS | sha256sum --check --status) ||
  fail "the checksum of $name.tar.gz is wrong; nothing was installed"
tar --extract --gzip --no-same-owner --file "$directory/$name.tar.gz" --directory "$directory"
unpacked=$directory/$name
# The unit names the binary of the Debian package.
sed "s|^ExecStart=/usr/bin/|ExecStart=$prefix/bin/|" "$unpacked/lib/systemd/system/segno.service" > "$directory/unit"
cat "$directory/unit" > "$unpacked/lib/systemd/system/segno.service"
mkdir -p "$prefix/bin"
# A running server keeps its file: the new one gets the name at once.
cp "$unpacked/bin/segno" "$prefix/bin/segno.new"
mv "$prefix/bin/segno.new" "$prefix/bin/segno"
rm "$unpacked/bin/segno"
cp -R "$unpacked/." "$prefix/"
echo "$("$prefix/bin/segno" --version | head -n 1) is installed: $prefix/bin/segno"
case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "$prefix/bin is not in PATH." ;;
esac
