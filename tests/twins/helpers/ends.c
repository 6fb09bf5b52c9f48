/* A caller: starts a program, may signal it, and says on stdout (or the
 * descriptor of -o) how it ended, a signal told apart from 128+n.
 *
 *   ends [-o FD] [-i SIG] [-g] STEP... PROGRAM ARGS...
 *
 * -i SIG       the program is started with that signal ignored
 * -g           the program leads a group of its own, which is no orphan: as a
 *              shell with job control starts it
 *
 * Steps, one after the other:
 *
 * -w FILE SIG  waits for FILE, sends SIG to the program
 * -k SIG       sends SIG at once
 * -u           waits until it stops, goes on or ends, and says which
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int number(const char *name) {
    for (int n = 1; n < NSIG; n++) {
        const char *known = sigabbrev_np(n);
        if (known && strcmp(known, name) == 0) return n;
    }
    return atoi(name);
}

static int out = 1;

static int said(int status) {
    if (WIFSTOPPED(status)) dprintf(out, "stopped %s\n", sigabbrev_np(WSTOPSIG(status)));
    else if (WIFCONTINUED(status)) dprintf(out, "continued\n");
    else if (WIFEXITED(status)) dprintf(out, "exit %d\n", WEXITSTATUS(status));
    else if (sigabbrev_np(WTERMSIG(status))) dprintf(out, "signal %s\n", sigabbrev_np(WTERMSIG(status)));
    else dprintf(out, "signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) || WIFSIGNALED(status);
}

/* Waits for a file; whether the program still runs. It is not reaped here, so
 * that its pid stays its own. */
static int there(pid_t child, const char *file) {
    while (access(file, F_OK) != 0) {
        siginfo_t info = {0};
        waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid == child) return 0;
        usleep(2000);
    }
    return 1;
}

int main(int argc, char **argv) {
    int ignored = 0, group = 0, status, at = 1;
    for (; at < argc && argv[at][0] == '-' && strchr("oig", argv[at][1]); at++) {
        if (argv[at][1] == 'o') out = atoi(argv[++at]);
        else if (argv[at][1] == 'i') ignored = number(argv[++at]);
        else group = 1;
    }
    int steps = at;
    for (; at < argc && argv[at][0] == '-'; at++)
        at += argv[at][1] == 'w' ? 2 : argv[at][1] == 'k' ? 1 : 0;
    pid_t child = fork();
    if (child == 0) {
        if (group) setpgid(0, 0);
        if (ignored) signal(ignored, SIG_IGN);
        execvp(argv[at], argv + at);
        perror(argv[at]);
        _exit(127);
    }
    for (; steps < at; steps++) {
        if (argv[steps][1] == 'w') {
            if (!there(child, argv[++steps])) break;
            kill(child, number(argv[++steps]));
        } else if (argv[steps][1] == 'k') {
            kill(child, number(argv[++steps]));
        } else {
            waitpid(child, &status, WUNTRACED | WCONTINUED);
            if (said(status)) return 0;
        }
    }
    waitpid(child, &status, 0);
    said(status);
    return 0;
}
