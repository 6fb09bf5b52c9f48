#!/usr/bin/env bash
# Makes a release: one tarball with both programs and everything that is needed to use
# them with containers, without, or in a cluster, and its SHA-256 beside it.
#
#   scripts/release.sh [--programs DIR] [--to DIR]
#
# --programs DIR   tool-server and tool-client that are built already; otherwise they
#                  are built here, with no path of this machine in them
# --to DIR         where the tarball goes; dist
#
# The same sources, programs and Rust give the same bytes: names are in order, nothing
# has an owner, and everything has one time, SOURCE_DATE_EPOCH or the last commit's.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

{
programs=
to=dist
while (($# > 0)); do
    case $1 in
        --programs) programs=${2:?--programs needs a directory} ;;
        --to) to=${2:?--to needs a directory} ;;
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
            exit
            ;;
        *) die "no such option: $1; see scripts/release.sh --help" ;;
    esac
    shift 2
done
mkdir -p -- "$to"
to=$(cd -- "$to" && pwd)
[[ -z $programs ]] || programs=$(cd -- "$programs" && pwd)
need_cargo
command -v python3 >/dev/null || die "python3 is needed, for the licences of dependencies: install it"
cd "$root"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
machine=$(rustc -vV | sed -n 's/^host: //p')
name=tool-broker-$version-$machine
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
        die "SOURCE_DATE_EPOCH is not set and this is no checkout of git: set it to the time of the release in seconds"
fi
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tool-release.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tree=$scratch/$name
umask 022

if [[ -z $programs ]]; then
    echo "builds both programs, which takes some minutes"
    # Not the ordinary build: messages of a panic name source files.
    RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$root=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        cargo build --quiet --release --locked -p tool-server -p tool-client --target-dir "$(target_dir)/dist"
    programs=$(target_dir)/dist/release
fi
for program in tool-server tool-client; do
    [[ -x $programs/$program ]] || die "$programs has no $program: build it (cargo build --release), or leave --programs out"
done
said=$("$programs/tool-server" version)
[[ $said == "tool-server $version" ]] ||
    die "$programs/tool-server says it is '$said', this is $version: build it anew"

echo "writes man pages and completions"
cargo build --quiet --locked -p tool-server --features tool-server/manual --target-dir "$(target_dir)"
manual=$(target_dir)/debug/tool-server
mkdir -p "$tree/bin" "$scratch/manual"
"$manual" manual "$scratch/manual"

echo "collects the licences of dependencies"
scripts/third-party.py "$machine" >"$tree/THIRD-PARTY"

cp -- "$programs/tool-server" "$programs/tool-client" "$tree/bin/"
mkdir -p "$tree/share/man"
cp -R -- "$scratch/manual/man1" "$scratch/manual/completions" "$tree/share/"
mv -- "$tree/share/man1" "$tree/share/man/man1"
cp -- client/tool-client.1 "$tree/share/man/man1/"

# As in the checkout, so that what one says of paths holds for the other. Only what git
# knows: nothing that lies about here comes along.
files=(README.md CHANGELOG.md SECURITY.md LICENSE-APACHE LICENSE-MIT docs tools.d deploy
    compose.yaml .dockerignore catalog restricted
    server/Containerfile server/entrypoint.sh client/Containerfile client/entrypoint.sh client/doctor.sh
    scripts/claude-container scripts/claude-container.d scripts/install.sh scripts/run.sh scripts/check-instances.sh)
there=()
for file in "${files[@]}"; do
    [[ ! -e $file ]] || there+=("$file")
done
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z -- "${there[@]}" >"$scratch/files"
else
    find "${there[@]}" -type f -print0 >"$scratch/files"
fi
tar -c --null --files-from "$scratch/files" | tar -x -C "$tree"
(cd "$tree" && find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >"$scratch/sums")
mv -- "$scratch/sums" "$tree/SHA256SUMS"

# tar, then gzip by itself: -n leaves its time and name out.
tar -C "$scratch" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode='u+rwX,go+rX,go-w' --format=ustar -cf "$scratch/tar" "$name"
gzip -9 -n <"$scratch/tar" >"$to/.$name.new"
mv -- "$to/.$name.new" "$to/$name.tar.gz"
(cd "$to" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$to/$name.tar.gz: $(stat -c %s "$to/$name.tar.gz") bytes, $(wc -l <"$tree/SHA256SUMS") files"
exit
}
