/* Stalls system calls on files below a directory until a release file appears: a file system that does not answer.
 *
 * STALL_BELOW    directory, absolute
 * STALL_CALLS    comma-separated: open, write, fsync, rename, close, unlink, mkdir
 * STALL_REACHED  file that is created when the first call stalls
 * STALL_RELEASE  file whose existence lets all calls go on
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_wanted(const char *call) {
    const char *calls = getenv("STALL_CALLS");
    size_t length = strlen(call);
    while (calls && *calls) {
        if (!strncmp(calls, call, length) && (calls[length] == ',' || !calls[length])) return 1;
        calls = strchr(calls, ',');
        if (calls) calls++;
    }
    return 0;
}

static void stall(const char *call, const char *path) {
    const char *below = getenv("STALL_BELOW"), *reached = getenv("STALL_REACHED"), *release = getenv("STALL_RELEASE");
    if (!path || !below || !reached || !release || strncmp(path, below, strlen(below)) || !is_wanted(call)) return;
    int saved = errno;
    /* Raw system calls: these are not for ourselves. */
    long made = syscall(SYS_openat, AT_FDCWD, reached, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (made >= 0) syscall(SYS_close, made);
    while (syscall(SYS_faccessat, AT_FDCWD, release, F_OK)) usleep(1000);
    errno = saved;
}

static void stall_descriptor(const char *call, int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    stall(call, path);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    stall("open", path);
    return NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    stall("open", path);
    return NEXT(open64)(path, flags, mode);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    stall_descriptor("write", descriptor);
    return NEXT(write)(descriptor, data, size);
}

int fsync(int descriptor) {
    stall_descriptor("fsync", descriptor);
    return NEXT(fsync)(descriptor);
}

int close(int descriptor) {
    stall_descriptor("close", descriptor);
    return NEXT(close)(descriptor);
}

int rename(const char *from, const char *to) {
    stall("rename", to);
    return NEXT(rename)(from, to);
}

int unlink(const char *path) {
    stall("unlink", path);
    return NEXT(unlink)(path);
}

int mkdir(const char *path, mode_t mode) {
    stall("mkdir", path);
    return NEXT(mkdir)(path, mode);
}
