# shellcheck shell=bash disable=SC2154,SC2016
# The units of deploy/systemd under a real systemd, which is the first process of a
# container made for it. What is shown is that nothing of the hardening takes anything
# away from what holds the tools.

# Starts systemd with the units installed as docs/systemd.md says, and sets $machine.
start_machine() {
    machine=tool-broker-test-systemd-$$
    printf 'FROM %s\nRUN %s\nCMD ["/sbin/init"]\n' "$BASE_IMAGE" \
        'apt-get update -q && apt-get install -y -q --no-install-recommends systemd systemd-sysv git procps bsdutils' \
        >"$work/Containerfile"
    podman build --quiet --network=host -t localhost/tool-broker-test-systemd -f "$work/Containerfile" "$work"
    at_end+=("podman rm -f $machine")
    podman run -d --name "$machine" --systemd=always --privileged --network=host \
        -v "$root:/src:ro" -v "$bin:/built:ro" localhost/tool-broker-test-systemd
    eventually 30 podman exec "$machine" systemctl is-active basic.target
    podman exec "$machine" sh -euc '
        groupadd --system agents
        useradd --system --home-dir /var/lib/tool-server --shell /usr/sbin/nologin tools
        useradd --create-home --groups agents --shell /bin/bash agent
        install -d -o agent -g agent -m 0700 /srv/workspace
        install -m 0755 /built/tool-server /built/tool-client /usr/local/bin/
        mkdir -p /etc/tool-server /usr/local/lib/tools/bin
        cp -R /src/tools.d /etc/tool-server/
        chmod -R go-w /etc/tool-server
        install -m 0644 /src/deploy/systemd/tool-server.* /etc/systemd/system/
        cp /usr/local/bin/tool-client /usr/local/lib/tools/bin/
        TOOLS_DIR=/etc/tool-server/tools.d tool-server link /usr/local/lib/tools/bin
        systemctl daemon-reload
        systemctl enable --now tool-server.socket'
}

# As the agent, in the workspace, with the symlinks on the PATH.
as_agent() {
    podman exec "$machine" su agent -c "export PATH=/usr/local/lib/tools/bin:/usr/bin:/bin; cd /srv/workspace; $1"
}

server_status() { podman exec -e STATE_DIR=/var/lib/tool-server "$machine" tool-server status; }

under_systemd_calls_are_held_by_namespaces_and_run_as_the_owner_of_the_workspace() {
    start_machine
    # The first call starts the server.
    expect 0 '^git version ' as_agent 'git --version'
    as_agent 'git init -q . && touch f && git add f && git -c user.name=a -c user.email=a@b.c commit -qm x'
    expect 0 'commits: 1' as_agent 'echo commits: $(git rev-list --count HEAD)'
    expect 0 'agent agent f$' podman exec "$machine" sh -c 'cd /srv/workspace; stat -c "%U %G %n" f .git/HEAD f'
    expect 0 '^agent agent .git/HEAD$' podman exec "$machine" sh -c 'cd /srv/workspace; stat -c "%U %G %n" .git/HEAD'
    expect 126 'push-delete-protected' as_agent 'git push origin --delete main'
    # A terminal, which the server makes.
    expect 0 'git version ' as_agent 'script -qec "git --version" /dev/null'
    expect 0 'confinement: namespaces, .*seccomp, uid: owner' server_status
    [[ $output != *missing:* ]] || fail "the units take something away: $output"
    # Neither the server nor an agent: everybody else's calls are refused by the socket.
    expect 125 'no permission' podman exec -u nobody "$machine" /usr/local/bin/tool-client --health
    # It ends in order, and the socket starts it anew.
    podman exec "$machine" systemctl restart tool-server
    expect 0 '^git version ' as_agent 'git --version'
    expect 0 'unclean restarts: 0' server_status
    podman exec "$machine" systemctl stop tool-server
    expect 0 '^git version ' as_agent 'git --version'
}

long_cases under_systemd_calls_are_held_by_namespaces_and_run_as_the_owner_of_the_workspace
