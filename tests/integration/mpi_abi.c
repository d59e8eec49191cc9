/* A small MPI for tests: the functions of the standard ABI that petal calls, over files in the folder
 * PETAL_TEST_MPI. A message is a file, made whole by a rename. A file "cut.RANK" there cuts that
 * rank off: what it sends does not arrive, and nothing arrives at it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 64
#define TAGS 32

typedef struct { int source, tag, error, internal[5]; } status_t;
typedef struct { char kind; void *bytes; int count, peer, tag, number; } request_t;

static int rank, size, barriers, files;
static int sent[RANKS][TAGS], received[RANKS][TAGS];

static int number(const char *name) { return atoi(getenv(name)); }

static char *path(char *text, const char *kind, int a, int b, int c, int d) {
    sprintf(text, "%s/%s.%d.%d.%d.%d", getenv("PETAL_TEST_MPI"), kind, a, b, c, d);
    return text;
}

static int is_there(const char *kind, int a, int b, int c, int d) {
    char text[512];
    return access(path(text, kind, a, b, c, d), F_OK) == 0;
}

static int is_cut(int a) { return is_there("cut", a, 0, 0, 0); }

static void put(const char *kind, int a, int b, int c, int d, const void *bytes, int count) {
    char draft[512], text[512];
    int file = open(path(draft, "draft", rank, getpid(), ++files, 0), O_CREAT | O_WRONLY, 0600);
    if (write(file, bytes, count) != count) abort();
    close(file);
    rename(draft, path(text, kind, a, b, c, d));
}

#ifdef OPEN_MPI /* The ABI of Open MPI 3 to 5: handles are addresses of its own objects. */
char ompi_mpi_comm_world, ompi_mpi_byte, ompi_mpi_errors_return;
#define WORLD ((void *)&ompi_mpi_comm_world)
#define BYTE ((void *)&ompi_mpi_byte)
#define SERIALIZED 2
#else
#define WORLD ((void *)0x101)
#define BYTE ((void *)0x247)
#define SERIALIZED 2048
int MPI_Abi_get_version(int *major, int *minor) { *major = 1; *minor = 0; return 0; }
#endif

static void check(void *comm, void *type) { if (comm != WORLD || type != BYTE) abort(); }

int MPI_Comm_set_errhandler(void *comm, void *handler) { (void)comm; (void)handler; return 0; }
int MPI_Error_string(int code, char *text, int *length) { (void)code; *text = 0; *length = 0; return 0; }
int MPI_Comm_rank(void *comm, int *out) { (void)comm; *out = rank; return 0; }
int MPI_Comm_size(void *comm, int *out) { (void)comm; *out = size; return 0; }

int MPI_Init_thread(int *argc, void *argv, int asked, int *provided) {
    (void)argc; (void)argv;
    rank = number("PMI_RANK"); size = number("PMI_SIZE");
    if (asked != SERIALIZED) abort();
    *provided = asked;
    return size <= RANKS ? 0 : 1;
}

/* As of a real one: ranks part when all of them have come to it. */
int MPI_Finalize(void) {
    put("left", rank, 0, 0, 0, "", 0);
    for (int other = 0; other < size; other++)
        while (!is_there("left", other, 0, 0, 0)) usleep(2000);
    return 0;
}

int MPI_Abort(void *comm, int code) {
    (void)comm;
    put("aborted", 0, 0, 0, 0, "", 0);
    _exit(code);
}

/* What a launcher does to the others. */
static void end_if_aborted(void) { if (is_there("aborted", 0, 0, 0, 0)) _exit(9); }

static int begin(request_t made, void **request) {
    request_t *kept = malloc(sizeof made);
    *kept = made;
    *request = kept;
    return 0;
}

int MPI_Isend(const void *bytes, int count, void *type, int to, int tag, void *comm, void **request) {
    check(comm, type);
    return begin((request_t){'s', (void *)bytes, count, to, tag, ++sent[to][tag]}, request);
}

int MPI_Irecv(void *bytes, int count, void *type, int from, int tag, void *comm, void **request) {
    check(comm, type);
    return begin((request_t){'r', bytes, count, from, tag, ++received[from][tag]}, request);
}

int MPI_Ibarrier(void *comm, void **request) {
    (void)comm;
    put("barrier", ++barriers, rank, 0, 0, "", 0);
    return begin((request_t){'b', 0, 0, 0, 0, barriers}, request);
}

int MPI_Iprobe(int from, int tag, void *comm, int *flag, status_t *status) {
    (void)comm;
    end_if_aborted();
    *flag = 0;
    for (int peer = from < 0 ? 0 : from; peer < (from < 0 ? size : from + 1) && !*flag; peer++) {
        int is_next = is_there("message", peer, rank, tag, received[peer][tag] + 1);
        if (is_next && !is_cut(rank) && !is_cut(peer)) *flag = 1, status->source = peer;
    }
    return 0;
}

int MPI_Test(void **request, int *flag, status_t *status) {
    request_t *of = *request;
    char text[512];
    (void)status;
    end_if_aborted();
    *flag = 0;
    if (of->kind == 'b') {
        for (int other = 0; other < size; other++)
            if (!is_there("barrier", of->number, other, 0, 0)) return 0;
    } else if (is_cut(rank) || is_cut(of->peer)) {
        return 0;
    } else if (of->kind == 's') {
        put("message", rank, of->peer, of->tag, of->number, of->bytes, of->count);
    } else {
        int file = open(path(text, "message", of->peer, rank, of->tag, of->number), O_RDONLY);
        if (file < 0) return 0;
        if (read(file, of->bytes, of->count) != of->count) abort();
        close(file);
        unlink(text);
    }
    free(of);
    *request = 0;
    *flag = 1;
    return 0;
}
