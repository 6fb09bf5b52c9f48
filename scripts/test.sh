#!/usr/bin/env bash
# Everything that is tested, on a fresh machine too. Says first what it
# installs; ends with what was shown, what was skipped and why, and one line:
#
#   N passed, N failed, N skipped
#
# Passed are cargo's tests and the cases of tests/deploy. Failed and skipped are
# those, and of the checks beside them which failed or could not be made. Status 0:
# nothing failed.
#
#   scripts/test.sh          the tests and checks
#   scripts/test.sh --all    what takes long as well
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
exec </dev/null

# In braces: bash reads all of it before it begins, so that the file may change
# under a run (a checkout, an editor).
{
all=false
case ${1-} in
    '') ;;
    --all) all=true ;;
    -h | --help)
        sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
        exit
        ;;
    *) die "no such option: $1; see scripts/test.sh --help" ;;
esac
(($# <= 1)) || die "too many arguments; see scripts/test.sh --help"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tool-tests.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

proven=()
failed=()
skipped=()
tests_passed=0
tests_failed=0
tests_skipped=0

heading() { printf '\n== %s\n' "$*"; }
skip() {
    printf 'skipped: %s: %s\n' "$1" "$2"
    skipped+=("$1: $2")
}

# check WHAT COMMAND...: one check; the others go on if it fails.
check() {
    local what=$1
    shift
    heading "$what"
    printf '$ %s\n' "$*"
    if "$@"; then
        proven+=("$what")
    else
        printf 'FAILED: %s\n' "$what"
        failed+=("$what")
        return 1
    fi
}

# --- What has to be there ----------------------------------------------------

wanted=(/usr/bin/git:git cc:gcc cc:libc6-dev python3:python3 ps:procps setsid:util-linux
    script:bsdutils tar:tar openssl:openssl ssh-keygen:openssh-client)
# Without less, vi and make some rows of tests/twins are skipped; without curl, gh,
# npm and git-lfs, what is tested of each; without strace, those tests in which a
# system call of the server's fails or kills it.
useful=(shellcheck:shellcheck less:less vi:vim-tiny make:make strace:strace
    curl:curl gh:gh npm:npm node:nodejs git-lfs:git-lfs)
mapfile -t packages < <(
    {
        missing_packages "${wanted[@]}" "${useful[@]}"
        "$root/tests/third-party/git-suite.sh" --needs
    } | sort -u
)
echo "This builds the project in $(target_dir) and tests it; servers are started in"
echo "directories of their own and stopped. Takes some minutes."
if ((${#packages[@]} == 0)); then
    echo "It installs nothing."
elif may_install; then
    echo "It installs (apt-get): ${packages[*]}"
    install_packages "${packages[@]}" || echo "not everything could be installed: going on"
else
    echo "Missing, and not installed (that needs root and apt-get): ${packages[*]}"
fi
if $all && ! command -v cargo-deny >/dev/null; then
    echo "It installs (cargo install): cargo-deny"
fi
need_cargo
mapfile -t packages < <(missing_packages /usr/bin/git:git cc:gcc)
((${#packages[@]} == 0)) || die "nothing can be tested without these packages: ${packages[*]}: install them"
cd "$root"
# The base image of tests/deploy takes a minute: it is made while cargo builds.
if may_install; then
    tests/deploy/run.sh --base >"$scratch/base.log" 2>&1 &
    base=$!
fi

# --- The checks --------------------------------------------------------------

build_and_check() {
    check "cargo build --release makes both programs" cargo build --release || return 1
    [[ -x $(target_dir)/release/tool-server && -x $(target_dir)/release/tool-client ]]
}

format() {
    if cargo fmt --version >/dev/null 2>&1; then
        check "the code is formatted" cargo fmt --all --check
    else
        skip "cargo fmt --check" "rustfmt is not installed"
    fi
}

lints() {
    if cargo clippy --version >/dev/null 2>&1; then
        check "no lint complains" cargo clippy --workspace --all-targets -- -D warnings
    else
        skip "cargo clippy" "clippy is not installed"
    fi
}

# Runs the tests and adds up what cargo's test programs say.
run_tests() {
    local status=0 passed bad ignored line
    : >"$scratch/skipped"
    if $all; then
        export TOOL_TESTS_LONG=1
    fi
    TOOL_TESTS_SKIPPED=$scratch/skipped CARGO_TERM_COLOR=never \
        cargo test --workspace --no-fail-fast 2>&1 | tee "$scratch/tests" || status=$?
    while read -r passed bad ignored; do
        ((tests_passed += passed, tests_failed += bad, tests_skipped += ignored)) || true
    done < <(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$scratch/tests")
    # A test that cannot run here says so and returns: cargo counts it as passed.
    while read -r line; do
        skipped+=("${line#SKIPPED }")
        ((tests_passed -= 1, tests_skipped += 1)) || true
    done < <(sort -u "$scratch/skipped")
    while read -r line; do
        skipped+=("$line")
    done < <(sed -n 's/^test \(.*\) \.\.\. ignored, \(.*\)$/\1: \2/p; s/^test \(.*\) \.\.\. ignored$/\1: takes long or is not for every machine/p' "$scratch/tests")
    while read -r line; do
        failed+=("test $line")
    done < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$scratch/tests")
    if ((status != 0 && tests_failed == 0)); then
        # It did not come to a result: a test program that does not build or
        # that crashed.
        failed+=("cargo test --workspace")
        tests_failed=1
    fi
    return "$status"
}

tests() {
    heading "the tests"
    echo "\$ cargo test --workspace"
    if run_tests; then
        proven+=("cargo test --workspace: $tests_passed tests")
    fi
}

shell_scripts() {
    if command -v shellcheck >/dev/null; then
        mapfile -t scripts < <(find scripts tests tools.d -name '*.sh' | sort)
        check "shellcheck finds nothing in ${#scripts[@]} scripts and .ci/run" \
            shellcheck --external-sources "${scripts[@]}" .ci/run
    else
        skip "shellcheck" "it is not installed"
    fi
}

# The two containers, with real podman; with --all, rootless and docker's engine too.
deployed() {
    local what="tests/deploy: the containers" status=0 options=() good=0 bad=0
    if $all; then
        options=(--all)
    fi
    heading "$what"
    if ! may_install; then
        skip "$what" "they need root and apt-get"
        return
    fi
    echo "\$ tests/deploy/run.sh ${options[*]}"
    # What was wrong with it, the cases say again.
    wait "$base" || true
    cat "$scratch/base.log"
    tests/deploy/run.sh "${options[@]}" 2>&1 | tee "$scratch/deploy" || status=$?
    read -r good bad _ < <(
        sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$scratch/deploy" | tail -n 1
    ) || true
    ((tests_passed += good, tests_failed += bad)) || true
    while read -r line; do
        failed+=("test ${line%%:*}: tests/deploy")
    done < <(sed -n 's/^not ok //p' "$scratch/deploy")
    while read -r line; do
        skipped+=("$line")
    done < <(sed -n 's/^skipped //p' "$scratch/deploy")
    if ((status != 0 && bad == 0)); then
        failed+=("tests/deploy ended with status $status")
    elif ((bad == 0)); then
        proven+=("$what: $good cases")
    fi
}

# git's own tests: a choice of a minute, or all that are listed.
git_suite() {
    local what="git's own tests cannot tell tool-client from git" status=0 options=(--quick)
    if $all; then
        options=()
    fi
    heading "$what"
    echo "\$ tests/third-party/git-suite.sh ${options[*]}"
    tests/third-party/git-suite.sh "${options[@]}" 2>&1 | tee "$scratch/suite" || status=$?
    case $status in
        0) proven+=("$what: $(sed -n 's/^git suite: //p' "$scratch/suite")") ;;
        77) skip "$what" "$(sed -n 's/^git suite: not possible here: //p' "$scratch/suite")" ;;
        *)
            printf 'FAILED: %s\n' "$what"
            failed+=("$what: $(grep '^git suite: ' "$scratch/suite" || echo "status $status")")
            ;;
    esac
}

dependencies() {
    if ! command -v cargo-deny >/dev/null && $all; then
        check "cargo-deny can be installed" cargo install --locked cargo-deny || return 1
    fi
    if command -v cargo-deny >/dev/null; then
        check "dependencies: licences, duplicates, sources" cargo deny check bans licenses sources
    else
        skip "cargo deny check bans licenses sources" "cargo-deny is not installed (--all installs it)"
    fi
}

other_machine() {
    local target=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc
    local what="tool-client for aarch64" client emulator
    if ! command -v "$linker" >/dev/null; then
        skip "$what" "$linker is not installed"
        return
    fi
    if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]]; then
        skip "$what" "the Rust target $target is not installed"
        return
    fi
    check "$what builds" env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$linker" \
        cargo build --release -p tool-client --target "$target" || return 1
    client=$(target_dir)/$target/release/tool-client
    emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
    if [[ -n $emulator ]]; then
        check "$what runs" "$emulator" "$client" --version
    else
        skip "$what: running it" "qemu-aarch64 is not installed"
    fi
}

build_and_check || true
if ((${#failed[@]} == 0)); then
    format || true
    lints || true
    tests || true
    deployed || true
    git_suite || true
    shell_scripts || true
    dependencies || true
    if $all; then
        check "scripts/demo.sh: the main job, end to end" scripts/demo.sh || true
        other_machine || true
    fi
fi

# --- The end -----------------------------------------------------------------

heading "what was shown"
for line in "${proven[@]}"; do printf 'proven: %s\n' "$line"; done
for line in "${skipped[@]}"; do printf 'skipped: %s\n' "$line"; done
for line in "${failed[@]}"; do printf 'FAILED: %s\n' "$line"; done
$all || echo "left out: what takes long, more of git's tests, the demo, the client for aarch64: scripts/test.sh --all"

# Each failed test is in the list by its name; the rest of the list are checks.
checks_failed=0
for line in "${failed[@]}"; do
    [[ $line == "test "* || $line == "cargo test"* ]] || ((checks_failed += 1))
done
total_failed=$((tests_failed + checks_failed))
total_skipped=${#skipped[@]}
((total_skipped >= tests_skipped)) || total_skipped=$tests_skipped
printf '\n%d passed, %d failed, %d skipped\n' "$tests_passed" "$total_failed" "$total_skipped"
((total_failed == 0)) || exit 1
exit 0
}
