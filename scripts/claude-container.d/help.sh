# shellcheck shell=sh
# A part of claude-container, read by it.
#
# What --help says, for all and for each verb.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

help() {
    case $1 in
        '') cat <<'H'
Two containers for a project: the agent's, in which git, gh and npm work and no token is,
and the tools' own, which has the programs and what they log in with.

    claude-container setup             once: what is needed on this machine
    claude-container run               the agent, for the project in this directory

A project
    run [OPTIONS] [-- COMMAND…]        the agent on this terminal; ends with it
    start [DIR], stop [DIR]            both containers in the background
    exec [COMMAND…]                    a shell, or a command, in the agent's container
    status [DIR], logs [-f] [DIR]      what the tools' server does and did
    approvals, approve ID, deny ID     calls that wait for you; revoke ID ends an approval
    explain TOOL ARGS…, audit          what a call would be; what was called
    project show|approve|deny|run      the project's own setup, .claude-container/config.json
This machine
    setup, install, build              first time; files alone; images alone
    doctor [DIR]                       what is missing, and what undermines the whole
    tools list|show|add|remove|check   what the agent may call
    uninstall [--purge]                asks first

claude-container VERB --help says more. DIR: a project, else the current directory.

Environment
    CLAUDE_HOME     tools, keys, state         ~/.config/claude-container
    CLAUDE_ENGINE   podman or docker           podman, if it is there
    SERVER_IMAGE, CLAUDE_IMAGE                 tool-server:v2, claude-code:v2
    WORKSPACE_PATH  the project's path inside  /workspace
    CLAUDE_HTTP     host or agent: who may     nobody
                    call the tools by HTTP
    and what compose.yaml names at its head
Keys and tokens: CLAUDE_HOME/.env.  More: docs/claude-container.md
H
            ;;
        run) cat <<'H'
claude-container run [--same-path] [--isolated] [--own-login] [-C DIR] [-- COMMAND…]

Starts the tools' server for the project, then the agent on this terminal, and takes both
down when the agent ends. What is missing is installed and built first. Where the server
runs already (start, or another run), it is used, and stays.

  -C DIR        the project; else the current directory
  --same-path   the project has the host's path inside too: for linked worktrees in it
  --isolated    the agent's container has no network of its own
  --own-login   the agent's log-in and settings are this project's own, from now on; else
                all projects of CLAUDE_HOME share them, and each agent can write them
  COMMAND…      instead of the agent (run -- bash); options alone go to the agent
                (run -- --resume)

Its exit status is the command's.
H
            ;;
        start) cat <<'H'
claude-container start [--same-path] [--own-login] [DIR]

Starts both containers in the background, and waits until tools can be called. The
agent's container then waits for claude-container exec. A second time does nothing.
--own-login: as for run.
H
            ;;
        stop) cat <<'H'
claude-container stop [DIR | --all]

Ends both containers and every agent in them, and removes containers, networks and
sockets. State is kept: the agent's home, the tools' homes, audit and approvals.
H
            ;;
        exec) cat <<'H'
claude-container exec [-C DIR] [--] [COMMAND…]

Runs a command in the agent's container that runs (of start, else of a run): a shell, if
none is given. For a look into the tools' container: claude-container status, logs.
H
            ;;
        status) cat <<'H'
claude-container status [DIR | --all]

What the tools' server says of itself: what needs a look, calls, tools, and which level
of confinement holds them. Exit 1 if it does not run. --all: every instance in a line;
exit 1 if one is not well.
H
            ;;
        logs) cat <<'H'
claude-container logs [-f] [DIR]

What both containers said; -f goes on with the server's. Who called what is in the audit:
claude-container exec does not see it, CLAUDE_HOME/state/ID/server/audit has it.
H
            ;;
        doctor) cat <<'H'
claude-container doctor [DIR]

Looks for what is missing to run, and for what undermines the whole: modes and owners,
a server without rules, a lower level of confinement; and in a running agent's container
real tools ahead of the wrappers, keys, tokens, sockets of others. Each finding is a line:

  ok     as it should be
  note   worth knowing
  wrong  what, why it matters, what to do        (exit 1)
H
            ;;
        tools) cat <<'H'
claude-container tools list                  what there is, and what is installed
claude-container tools show NAME             a definition, whole
claude-container tools add NAME…             from the catalog
claude-container tools add NAME --url GIT [--commit COMMIT]
claude-container tools add NAME --path DIR
claude-container tools remove NAME…
claude-container tools check                 are the definitions well?

Definitions are in CLAUDE_HOME/tools/tools.d, one folder each. What is added is in force
in running servers at once, if its program is in their image; else it says that
claude-container build is needed. A definition of another's is shown before it is taken.
H
            ;;
        approvals | approve | deny | revoke | explain | audit) cat <<'H'
claude-container approvals [--watch]         calls that wait for an answer
claude-container approve ID [--for TIME]     let one run; for 1h: its like, too
claude-container deny ID [--reason TEXT]
claude-container revoke ID                   end an approval that stands
claude-container explain TOOL ARGS…          what a call would be; runs nothing
claude-container audit [OPTIONS]             what was called

These are tool-server's verbs, for the project of the current directory, which has to
run. docs/operations.md says the rest.
H
            ;;
        project) cat <<'H'
claude-container project show | approve HASH | deny HASH | run

The project's own setup of the tools' side, .claude-container/config.json. The agent can
change it, so it is run only after you have approved its hash, confined and without
credentials. The project is the one of the current directory, and has to run.
H
            ;;
        setup) cat <<'H'
claude-container setup [BUILD OPTIONS]

Everything for the first time: looks for an engine, installs (claude-container install),
builds the images (claude-container build) if they are not there, or if options are given.
A second time changes nothing that is right.
H
            ;;
        install) cat <<'H'
claude-container install

Makes CLAUDE_HOME: tool-client and a link for each tool, the definitions, .env, the name
and e-mail address of your git for commits. Run it again after an upgrade: definitions
that you changed or removed are left as they are.
H
            ;;
        build) cat <<'H'
claude-container build [--compile] [OPTIONS]

Builds both images. tool-server and tool-client of this machine are used, if there are
any; --compile compiles them in the build. OPTIONS are the engine's:
    claude-container build --no-cache --build-arg TOOL_PACKAGES="git gh"
Environment: BASE, BUILDER (base images), AGENT_NPM (the agent's package; empty: none),
EXTRA_PACKAGES (of the tools' image; tools add notes what it needs by itself).
H
            ;;
        uninstall) cat <<'H'
claude-container uninstall [--purge] [--yes]

Says what it removes, asks, and removes it: containers, images, tools. State, keys and
configuration are kept, unless --purge is given.
H
            ;;
        *) misused "no such verb: $1; see claude-container --help" ;;
    esac
}
