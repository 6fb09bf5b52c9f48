# shellcheck shell=bash disable=SC2154,SC2016,SC2030,SC2031,SC2034
# The same as containers.sh, with rootless podman and with docker's engine.
source "$root/tests/deploy/containers.sh"
always=()
long=()

# each CASE...: one after the other with the engine that was started, each in a
# directory of its own.
each() {
    local all=$work name number=0 status
    for name in "$@"; do
        echo "== $engine: $name"
        ((number += 1))
        mkdir "$all/$number"
        # `set -e` holds in it only where nobody asks at once how it ended.
        set +e
        (
            set -e
            work=$all/$number at_end=()
            trap end_case EXIT
            "$name"
        )
        status=$?
        set -e
        ((status == 0)) || fail "with $engine: $name: $(sed -n 's/^failed: //p' "$all/../log" | tail -n 1)"
    done
}

rootless_podman_carries_the_same() {
    start_rootless
    each a_day_of_git_works_and_the_push_has_the_token \
        the_token_is_in_the_tools_container_alone \
        what_is_refused_says_why_and_what_to_do \
        a_tool_that_is_added_while_they_run_is_on_the_agents_path \
        an_agent_reaches_no_other_instance \
        a_server_that_was_killed_serves_the_same_client_again \
        stopping_leaves_nothing \
        worktrees_and_messages_in_tmpdir_are_the_same_on_both_sides \
        what_is_not_theirs_they_cannot_write_and_no_power_is_left \
        the_server_is_the_first_process_and_reaps \
        the_projects_setup_runs_before_the_agent \
        tools_are_held_by_namespaces
}

dockers_engine_carries_the_same() {
    start_docker
    each a_day_of_git_works_and_the_push_has_the_token \
        the_token_is_in_the_tools_container_alone \
        what_is_refused_says_why_and_what_to_do \
        a_tool_that_is_added_while_they_run_is_on_the_agents_path \
        an_agent_reaches_no_other_instance \
        a_server_that_was_killed_serves_the_same_client_again \
        stopping_leaves_nothing \
        worktrees_and_messages_in_tmpdir_are_the_same_on_both_sides \
        what_is_not_theirs_they_cannot_write_and_no_power_is_left \
        the_server_is_the_first_process_and_reaps \
        the_projects_setup_runs_before_the_agent \
        a_user_without_a_name_gets_one \
        tools_know_who_they_are \
        a_project_of_roots_is_worked_on_without_a_capability \
        with_one_capability_roots_project_has_namespaces_too \
        tools_are_held_by_namespaces
}

# Docker's own seccomp profile lets no namespace be made: the next level is used, and
# status names the option.
with_dockers_own_profile_landlock_holds_and_status_names_the_option() {
    start_docker
    instance plain
    mkdir -p "$work/override"
    sed '/- seccomp=/d' "$root/compose.yaml" >"$work/override/compose.yaml"
    compose_root=$work/override
    forge
    up
    serve_forge
    expect 0 '^confinement: landlock' in_server tool-server status
    grep -q 'missing: namespaces: .*--security-opt seccomp=deploy/seccomp.json (compose.yaml: SERVER_SECCOMP)' <<<"$output" ||
        fail "status does not name the option: $output"
    # Calls with a gate work at that level too.
    expect 0 'new branch' client "git clone https://github.com/ada/project 2>&1 && cd project && $commit one && git push origin HEAD:refs/heads/first 2>&1"
}

long_cases \
    rootless_podman_carries_the_same \
    dockers_engine_carries_the_same \
    with_dockers_own_profile_landlock_holds_and_status_names_the_option
