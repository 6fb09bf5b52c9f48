/* The tool without a broker: under the tool's name, becomes the tool with the
 * environment that the server would give it. What it owns is that environment:
 * PATH, HOME, TMPDIR, and what the definitions of the twins forward.
 *
 *   TWIN_BINARIES  a directory with a symlink to each tool's binary
 *   TWIN_HOMES     where the tools' HOMEs are
 *   TWIN_PATH      the PATH of a tool
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *const forwarded[] = {"TERM", "LANG", "LC_*", "TZ", "COLUMNS", "LINES",
                                        "NO_COLOR", "CI", "GIT_*", "FWD_*", NULL};

static int is_forwarded(const char *entry) {
    size_t length = strcspn(entry, "=");
    for (int i = 0; forwarded[i]; i++) {
        size_t wanted = strlen(forwarded[i]);
        if (forwarded[i][wanted - 1] == '*') {
            if (strncmp(entry, forwarded[i], wanted - 1) == 0 && length >= wanted - 1) return 1;
        } else if (length == wanted && strncmp(entry, forwarded[i], wanted) == 0) {
            return 1;
        }
    }
    return 0;
}

static char *joined(const char *a, const char *b, const char *c) {
    char *text = malloc(strlen(a) + strlen(b) + strlen(c) + 1);
    sprintf(text, "%s%s%s", a, b, c);
    return text;
}

int main(int argc, char **argv) {
    (void)argc;
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash ? slash + 1 : argv[0];
    int count = 0;
    while (environ[count]) count++;
    char **given = calloc(count + 4, sizeof *given);
    int n = 0;
    given[n++] = joined("PATH=", getenv("TWIN_PATH"), "");
    given[n++] = joined("HOME=", joined(getenv("TWIN_HOMES"), "/", name), "");
    given[n++] = joined("TMPDIR=", joined(getenv("TWIN_HOMES"), "/", name), "/tmp");
    for (int i = 0; i < count; i++)
        if (is_forwarded(environ[i])) given[n++] = environ[i];
    char *binary = joined(getenv("TWIN_BINARIES"), "/", name);
    argv[0] = (char *)name;
    execve(binary, argv, given);
    perror(binary);
    return 125;
}
