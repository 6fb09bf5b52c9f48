/* A client that is broken on purpose: breaks what TWIN_BREAK names, otherwise
 * runs the program of its own name in TWIN_INNER. The twins must notice. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static const char *broken;
static int is(const char *what) { return strcmp(broken, what) == 0; }

static void become(char **argv) {
    const char *slash = strrchr(argv[0], '/');
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("TWIN_INNER"), slash ? slash + 1 : argv[0]);
    execv(path, argv);
    perror(path);
    _exit(125);
}

/* Runs the tool as a child, one of its outputs through us, cut after `most`. */
static int with_output_cut(char **argv, size_t most) {
    int ends[2];
    if (pipe(ends)) return 125;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]), close(ends[1]);
        become(argv);
    }
    close(ends[1]);
    char piece[4096];
    ssize_t got;
    while ((got = read(ends[0], piece, sizeof piece)) > 0) {
        size_t keep = (size_t)got < most ? (size_t)got : most;
        if (keep && write(1, piece, keep) < 0) break;
        most -= keep;
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) { signal(WTERMSIG(status), SIG_DFL); raise(WTERMSIG(status)); }
    return WEXITSTATUS(status);
}

/* Runs the tool as a child and ends with a number where it died of a signal. */
static int with_child(char **argv, int deaf) {
    struct termios raw;
    if (deaf) for (int n = 1; n < 16; n++) signal(n, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        if (deaf) for (int n = 1; n < 16; n++) signal(n, SIG_DFL);
        if (is("terminal-lost")) setsid();
        become(argv);
    }
    int status;
    waitpid(child, &status, 0);
    if (is("raw") && tcgetattr(2, &raw) == 0) { cfmakeraw(&raw); tcsetattr(2, TCSANOW, &raw); }
    if (WIFSIGNALED(status)) return is("signal-becomes-0") ? 0 : 128 + WTERMSIG(status);
    return is("status-cut") ? WEXITSTATUS(status) & 127 : WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    broken = getenv("TWIN_BREAK");
    if (is("stdin")) { close(0); open("/dev/null", O_RDONLY); }
    else if (is("stdin-taken")) {
        /* Reads ahead what is there, as a relay does, and throws it away behind. */
        int ends[2];
        static char all[65536];
        ssize_t got = read(0, all, sizeof all);
        if (pipe(ends) || (got > 0 && write(ends[1], all, got) < 0)) return 125;
        close(ends[1]), dup2(ends[0], 0), close(ends[0]);
    } else if (is("stderr-merged")) dup2(1, 2);
    else if (is("outputs-crossed")) { int kept = dup(1); dup2(2, 1), dup2(kept, 2), close(kept); }
    else if (is("closed-opened")) {
        for (int fd = 0; fd < 3; fd++)
            if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);
    } else if (is("descriptors")) close_range(3, ~0U, 0);
    else if (is("descriptor-leaked")) dup2(open("/dev/null", O_RDONLY), 7);
    else if (is("argument-byte")) { if (argc > 1 && *argv[argc - 1]) argv[argc - 1][strlen(argv[argc - 1]) - 1] = 0; }
    else if (is("empty-argument")) {
        int kept = 0;
        for (int i = 0; i < argc; i++) if (i == 0 || *argv[i]) argv[kept++] = argv[i];
        argv[kept] = NULL;
    } else if (is("size")) {
        struct winsize small = {10, 20, 0, 0};
        ioctl(0, TIOCSWINSZ, &small);
    } else if (is("umask")) umask(022);
    else if (is("directory")) { if (chdir("..")) return 125; }
    else if (is("environment")) unsetenv("FWD_ONE");
    else if (is("shared-position")) {
        /* A file of its own in place of the caller's open one. */
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", 0);
        int own = open(path, O_RDONLY);
        if (own >= 0) dup2(own, 0), close(own);
    } else if (is("keys")) {
        char key;
        struct pollfd ready = {0, POLLIN, 0};
        struct termios was, single;
        if (tcgetattr(0, &was) == 0) {
            single = was;
            single.c_lflag &= ~(ICANON | ECHO);
            tcsetattr(0, TCSANOW, &single);
            if (poll(&ready, 1, 10000) == 1 && read(0, &key, 1) < 0) return 125;
            tcsetattr(0, TCSANOW, &was);
        }
    } else if (is("output-cut")) return with_output_cut(argv, 1000);
    else if (is("output-collected")) return with_output_cut(argv, ~(size_t)0);
    else if (is("signals-dropped")) return with_child(argv, 1);
    else if (is("raw") || is("terminal-lost") || is("signal-becomes-128") || is("signal-becomes-0") || is("status-cut"))
        return with_child(argv, 0);
    else if (!is("nothing")) { fprintf(stderr, "no such fault: %s\n", broken); return 125; }
    become(argv);
    return 125;
}
