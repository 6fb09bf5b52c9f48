/* A tool that says which descriptors it was given, one a line: number, kind,
 * access mode, whether O_APPEND and O_NONBLOCK are set. Written to stdout, or
 * to the file that is its argument. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char text[65536];
    size_t length = 0;
    for (int fd = 0; fd < 2048; fd++) {
        struct stat about;
        if (fstat(fd, &about) != 0) continue;
        int flags = fcntl(fd, F_GETFL);
        const char *kind = S_ISREG(about.st_mode) ? "file" : S_ISDIR(about.st_mode) ? "directory"
            : S_ISFIFO(about.st_mode) ? "pipe" : S_ISSOCK(about.st_mode) ? "socket"
            : S_ISCHR(about.st_mode) ? (isatty(fd) ? "terminal" : "device") : "other";
        const char *access[] = {"r", "w", "rw", "-"};
        length += snprintf(text + length, sizeof text - length, "%d %s %s%s%s\n", fd, kind,
                           access[flags & O_ACCMODE], flags & O_APPEND ? " append" : "",
                           flags & O_NONBLOCK ? " nonblock" : "");
    }
    int out = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : 1;
    return write(out, text, length) == (ssize_t)length ? 0 : 1;
}
