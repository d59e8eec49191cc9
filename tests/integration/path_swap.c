/* Another file takes the place of SWAP_PATH right after petal's open number SWAP_AT of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int opens;

static void swap_after(const char *path, int opened) {
    const char *wanted = getenv("SWAP_PATH"), *at = getenv("SWAP_AT");
    if (opened < 0 || !wanted || !at || strlen(path) < strlen(wanted)) return;
    /* A library may have made the path absolute. */
    if (strcmp(path + strlen(path) - strlen(wanted), wanted) != 0) return;
    if (atomic_fetch_add(&opens, 1) + 1 != atoi(at)) return;
    char moved[4096];
    snprintf(moved, sizeof moved, "%s.moved", wanted);
    if (rename(wanted, moved) != 0 || rename(getenv("SWAP_VICTIM"), wanted) != 0) abort();
}

#define OPEN(name)                                                   \
    int name(const char *path, int flags, ...) {                     \
        va_list more;                                                \
        va_start(more, flags);                                       \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
        int opened = real(path, flags, mode);                        \
        swap_after(path, opened);                                    \
        return opened;                                               \
    }
OPEN(open)
OPEN(open64)
