#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build and run tilegate on Debian 12 or Ubuntu 24.04, and nothing else:
#
#   tools/bootstrap.sh [run|test]
#
# 'run' is what a build and the examples need; 'test' adds the formatter, clang and its sanitizer
# runtimes. Packages come through apt (as root or with sudo), Python wheels pinned by hash into
# .deps/python. With TILEGATE_CUDNN=ON the headers of cudnn-frontend go to .deps/cudnn (cuDNN's own
# come with the toolkit or a package). Where everything is there it changes nothing and takes well under a second. CUDA is
# found, never installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run_packages=(
  git g++ cmake ninja-build python3
  libhwy-dev libtbb-dev libfmt-dev libcli11-dev nlohmann-json3-dev libeigen3-dev
  libutf8proc-dev
)
test_packages=(
  libgtest-dev libgmock-dev clang-14 libclang-rt-14-dev clang-format-14
)

say() { echo "bootstrap: $*"; }
die() {
  echo "bootstrap: $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    die "run as root or install sudo; the command was: $*"
  fi
}

apt_install() {
  say "installing $*"
  # A fresh image has no package lists, and a kept one may have lists that name old versions.
  as_root apt-get -q -o DPkg::Lock::Timeout=300 update > /dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$@" > /dev/null
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}\n' "$1" 2> /dev/null | head -n 1)" = installed ]
}

install_packages() {
  local missing=() package
  if ! command -v apt-get > /dev/null; then
    say "no apt-get here; make sure of: $*"
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ "${#missing[@]}" -eq 0 ] || apt_install "${missing[@]}"
}

install_wheels() {
  local target=.deps/python stamp=.deps/python.stamp key
  key="$(python3 -c 'import sys; print(sys.version_info[:2])') $(cksum < tools/wheels.txt)"
  [ -d "$target" ] && [ "$(cat "$stamp" 2> /dev/null)" = "$key" ] && return
  python3 -m pip --version > /dev/null 2>&1 || apt_install python3-pip
  say "unpacking the wheels of tools/wheels.txt into $target"
  rm -rf "$target" "$stamp"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --require-hashes --only-binary=:all: --target "$target" -r tools/wheels.txt
  echo "$key" > "$stamp"
}

# Headers only, from one wheel whatever this Python is.
install_cudnn_frontend() {
  local list=tools/wheels_cudnn.txt stamp=.deps/cudnn.stamp key folder
  key="$(cksum < "$list")"
  [ -d .deps/cudnn/include ] && [ "$(cat "$stamp" 2> /dev/null)" = "$key" ] && return
  python3 -m pip --version > /dev/null 2>&1 || apt_install python3-pip
  say "unpacking the headers of $list into .deps/cudnn"
  folder=$(mktemp -d)
  rm -rf .deps/cudnn "$stamp"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 \
    --platform manylinux_2_28_x86_64 --dest "$folder" -r "$list"
  python3 -m zipfile -e "$folder"/*.whl "$folder/wheel"
  mkdir -p .deps/cudnn
  mv "$folder/wheel/include" .deps/cudnn/include
  rm -rf "$folder"
  echo "$key" > "$stamp"
}

case "${1:-test}" in
  run) install_packages "${run_packages[@]}" ;;
  test) install_packages "${run_packages[@]}" "${test_packages[@]}" ;;
  *) die "the set must be 'run' or 'test', got '$1'" ;;
esac
install_wheels
[ "${TILEGATE_CUDNN:-}" != ON ] || install_cudnn_frontend
