# shellcheck shell=bash disable=SC2154
# The two containers of compose.yaml: what works in them, and what is not in the agent's.

# Everyday work, up to a push to a host that wants a token.
a_day_of_git_works_and_the_push_has_the_token() {
    instance day
    forge
    up
    serve_forge
    expect 0 'Cloning into' client 'git clone https://github.com/ada/project 2>&1'
    expect 0 '' client 'cd project && printf "one\n" >a && git add a && git commit -q -m "First words"'
    expect 0 'Ada <ada@example.org>' client 'cd project && git log --format="%an <%ae>"'
    expect 0 'new branch' client 'cd project && git push origin HEAD:refs/heads/first 2>&1'
    expect 0 'First words' git -c safe.directory="*" -C "$work/hub/ada/project.git" log --format=%s first
    # Without the token the host takes nothing.
    printf 'wrong\n' >"$CLAUDE_HOME/config/secrets/github_token"
    expect 128 '' client 'cd project && git push origin HEAD:refs/heads/second 2>&1'
}

what_is_refused_says_why_and_what_to_do() {
    instance refused
    up
    client 'git init -q && git commit -q --allow-empty -m x && git remote add origin https://github.com/o/r'
    expect 126 'refused: .*rule push-force-protected.*instead: ' client 'git push --force origin main 2>&1'
}

cases \
    a_day_of_git_works_and_the_push_has_the_token \
    what_is_refused_says_why_and_what_to_do
