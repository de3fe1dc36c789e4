/* powercut.so: an LD_PRELOAD shim that remembers what a power cut would undo.
 *
 * kill -9 proves nothing about fsync: the page cache survives it. This shim writes a log, outside the data directory,
 * of every change to the files under POWERCUT_DIR, with the bytes before and after, and of every fsync that returned.
 * After SIGKILL the harness (tools/harness/src/crash/power.rs) reads the log and takes back what was never synced: all of it,
 * or a random part, as a real disk might. The log itself needs no sync: it lives in the page cache, which survives.
 *
 * What must hold: a change is in the log before it is in the file, and a sync is in the log before its caller learns of
 * it. A sync covers the changes logged before it began, not those made by other threads meanwhile. What the shim does
 * not model (O_DSYNC, writable shared mappings, links) ends the process: silence would look like durability.
 *
 * Environment: POWERCUT_DIR (absolute), POWERCUT_LOG (a directory on the same file system), POWERCUT_REAL_SYNC=1 to
 * call the real fsync too, POWERCUT_SYNC_DELAY_US to make syncs slow, POWERCUT_LIE=1 to forget syncs (a self-test:
 * everything acknowledged is then lost and the harness must notice).
 *
 * Real calls go through syscall(2), so nothing here can call itself. Linux, 64 bit, glibc. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE = 1, RESIZE = 2, SYNC = 3, CREATE = 4, UNLINK = 5, RENAME = 6 };

/* One record of the log; from, to, old and new bytes follow. Read by tools/harness/src/crash/power.rs: change both. */
struct record {
    uint32_t magic, kind;
    uint64_t seq;      /* order of changes; of a SYNC: the last change it covers */
    uint64_t ino;      /* the file */
    uint64_t dir;      /* inode of the directory whose sync makes a CREATE, UNLINK or RENAME durable */
    uint64_t replaced; /* RENAME: inode that lost its name, kept under its number in the log directory; or 0 */
    uint64_t offset, old_size, new_size;
    uint64_t from_len, to_len, old_len, new_len;
};
#define MAGIC 0x74756370u /* "pcut" */

/* Files and directories with changes; a sync of all of them empties the log. */
struct tracked { dev_t dev; ino_t ino; uint64_t last, synced; int is_dir, unlinked; };
#define TRACKED_MAX 4096
static struct tracked tracked[TRACKED_MAX];
static int tracked_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int active, lie, real_sync, log_fd = -1;
static long sync_delay_us;
static char data_dir[PATH_MAX], log_dir[PATH_MAX - 64];
static uint64_t seq;

static void die(const char *why) {
    dprintf(2, "powercut: %s (errno %d)\n", why, errno);
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("POWERCUT_DIR"), *log = getenv("POWERCUT_LOG"), *delay = getenv("POWERCUT_SYNC_DELAY_US");
    if (!dir || !log) return;
    if (strlen(dir) >= sizeof data_dir || strlen(log) >= sizeof log_dir) die("path too long");
    strcpy(data_dir, dir);
    strcpy(log_dir, log);
    lie = getenv("POWERCUT_LIE") != NULL;
    real_sync = getenv("POWERCUT_REAL_SYNC") != NULL;
    sync_delay_us = delay ? atol(delay) : 0;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/log", log_dir);
    log_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) die("cannot open the log");
    active = 1;
}

/* ---- what is tracked ------------------------------------------------------------------------------------------- */

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Whether a path lies under the data directory and is not SQLite's shared memory, which is rebuilt after a crash. */
static int is_ours(const char *path) {
    size_t n = strlen(data_dir);
    return !strncmp(path, data_dir, n) && (path[n] == '/' || !path[n]) && !ends_with(path, "-shm");
}

/* The absolute path behind a descriptor. */
static int path_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return 0;
    out[n] = 0;
    return 1;
}

/* The absolute path of a name relative to a directory descriptor; parents must exist, the last part need not. */
static int resolve(int dirfd, const char *name, char *out) {
    char joined[2 * PATH_MAX], base[PATH_MAX], parent[PATH_MAX];
    if (name[0] == '/') {
        snprintf(joined, sizeof joined, "%s", name);
    } else {
        if (dirfd == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(dirfd, base)) return 0;
        snprintf(joined, sizeof joined, "%s/%s", base, name);
    }
    char *slash = strrchr(joined, '/');
    const char *last = slash + 1;
    *slash = 0;
    if (!realpath(joined[0] ? joined : "/", parent)) return 0;
    return snprintf(out, PATH_MAX, "%s/%s", parent, last) < PATH_MAX;
}

static struct tracked *find(dev_t dev, ino_t ino) {
    for (int i = 0; i < tracked_count; i++)
        if (tracked[i].ino == ino && tracked[i].dev == dev) return &tracked[i];
    return NULL;
}

static struct tracked *track(const struct stat *st) {
    struct tracked *entry = find(st->st_dev, st->st_ino);
    if (entry) return entry;
    if (tracked_count == TRACKED_MAX) die("too many files");
    entry = &tracked[tracked_count++];
    *entry = (struct tracked){.dev = st->st_dev, .ino = st->st_ino, .is_dir = S_ISDIR(st->st_mode)};
    return entry;
}

/* The entry of a descriptor if it is one of our files. Called with the lock held. */
static struct tracked *tracked_fd(int fd, struct stat *st) {
    if (fstat(fd, st) || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))) return NULL;
    return find(st->st_dev, st->st_ino);
}

/* The entry of the directory that holds a path. */
static struct tracked *parent_of(const char *path) {
    char parent[PATH_MAX];
    struct stat st;
    strcpy(parent, path);
    *strrchr(parent, '/') = 0;
    if (stat(parent, &st)) die("no parent directory");
    return track(&st);
}

/* ---- the log --------------------------------------------------------------------------------------------------- */

static void append(struct record *record, const char *from, const char *to, const void *old, const struct iovec *news,
                   int news_count) {
    record->magic = MAGIC;
    record->from_len = from ? strlen(from) : 0;
    record->to_len = to ? strlen(to) : 0;
    struct iovec parts[4 + IOV_MAX];
    if (news_count > IOV_MAX - 4) die("too many buffers");
    int count = 0;
    parts[count++] = (struct iovec){record, sizeof *record};
    parts[count++] = (struct iovec){(void *)from, record->from_len};
    parts[count++] = (struct iovec){(void *)to, record->to_len};
    parts[count++] = (struct iovec){(void *)old, record->old_len};
    for (int i = 0; i < news_count; i++) parts[count++] = news[i];
    size_t total = sizeof *record + record->from_len + record->to_len + record->old_len + record->new_len;
    if (syscall(SYS_writev, log_fd, parts, count) != (ssize_t)total) die("cannot write the log");
}

/* Bytes of a file before they change; the caller frees them. */
static void *bytes_of(int fd, uint64_t offset, uint64_t length) {
    if (!length) return NULL;
    char *bytes = malloc(length), link[64];
    if (!bytes) die("out of memory");
    int reader = -1;
    uint64_t done = 0;
    while (done < length) {
        ssize_t n = syscall(SYS_pread64, reader < 0 ? fd : reader, bytes + done, length - done, offset + done);
        if (n < 0 && errno == EBADF && reader < 0) { /* open for writing only */
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            reader = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
            if (reader < 0) die("cannot read back");
            continue;
        }
        if (n <= 0) die("cannot read what is about to change");
        done += n;
    }
    if (reader >= 0) syscall(SYS_close, reader);
    return bytes;
}

static void log_write(int fd, struct tracked *entry, const struct stat *st, const struct iovec *iov, int count,
                      uint64_t offset) {
    uint64_t length = 0, size = st->st_size;
    for (int i = 0; i < count; i++) length += iov[i].iov_len;
    uint64_t end = offset + length, old_end = end < size ? end : size;
    struct record record = {.kind = WRITE, .seq = ++seq, .ino = st->st_ino, .offset = offset, .old_size = size};
    record.new_size = end > size ? end : size;
    record.old_len = offset < old_end ? old_end - offset : 0;
    record.new_len = length;
    void *old = bytes_of(fd, offset, record.old_len);
    entry->last = seq;
    append(&record, NULL, NULL, old, iov, count);
    free(old);
}

static void log_resize(int fd, struct tracked *entry, const struct stat *st, uint64_t new_size) {
    uint64_t size = st->st_size;
    if (new_size == size) return;
    struct record record = {.kind = RESIZE, .seq = ++seq, .ino = st->st_ino, .old_size = size, .new_size = new_size};
    record.old_len = new_size < size ? size - new_size : 0;
    void *old = bytes_of(fd, new_size, record.old_len);
    entry->last = seq;
    append(&record, NULL, NULL, old, NULL, 0);
    free(old);
}

/* Keeps a file that is about to lose its name reachable under its inode number, so that it can come back. */
static void keep(const char *path, const struct stat *st) {
    char kept[PATH_MAX];
    snprintf(kept, sizeof kept, "%s/%llu", log_dir, (unsigned long long)st->st_ino);
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) && errno != EEXIST) die("cannot keep a file");
}

static int sync_fd(int fd, long call) {
    struct stat st;
    if (!active) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    struct tracked *entry = tracked_fd(fd, &st);
    uint64_t covered = seq;
    pthread_mutex_unlock(&lock);
    if (!entry) return syscall(call, fd);
    if (sync_delay_us) {
        struct timespec pause = {sync_delay_us / 1000000, sync_delay_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    if (real_sync && syscall(call, fd)) return -1;
    if (lie) return 0;
    pthread_mutex_lock(&lock);
    struct record record = {.kind = SYNC, .seq = covered, .ino = st.st_ino};
    append(&record, NULL, NULL, NULL, NULL, 0);
    if (entry->synced < covered) entry->synced = covered;
    int open_changes = 0;
    for (int i = 0; i < tracked_count; i++)
        open_changes |= tracked[i].last > tracked[i].synced && !tracked[i].unlinked;
    if (!open_changes) syscall(SYS_ftruncate, log_fd, 0L);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- calls that change files ----------------------------------------------------------------------------------- */

static int open_any(int dirfd, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    struct stat st;
    if (!active || !resolve(dirfd, path, full) || !is_ours(full)) return syscall(SYS_openat, dirfd, path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && lstat(full, &st);
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if (writes && (flags & O_DSYNC)) die("O_DSYNC is not modelled");
    int fd = syscall(SYS_openat, dirfd, path, writes ? flags & ~O_TRUNC : flags, mode);
    int saved = errno;
    if (fd >= 0) {
        if (fstat(fd, &st)) die("fstat");
        struct tracked *entry = track(&st);
        entry->unlinked = 0;
        if (is_new) {
            struct tracked *dir = parent_of(full);
            struct record record = {.kind = CREATE, .seq = ++seq, .ino = st.st_ino, .dir = dir->ino};
            dir->last = seq;
            append(&record, full, NULL, NULL, NULL, 0);
        }
        if (writes && (flags & O_TRUNC) && st.st_size) {
            log_resize(fd, entry, &st, 0);
            if (syscall(SYS_ftruncate, fd, 0L)) die("O_TRUNC");
        }
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

static mode_t mode_of(int flags, va_list list) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
}
#define OPEN_MODE(flags) \
    va_list list; \
    va_start(list, flags); \
    mode_t mode = mode_of(flags, list); \
    va_end(list)

int open(const char *path, int flags, ...) { OPEN_MODE(flags); return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { OPEN_MODE(flags); return open_any(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { OPEN_MODE(flags); return open_any(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { OPEN_MODE(flags); return open_any(dir, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* All writes: position -1 means the file's own position. */
static ssize_t write_any(int fd, const struct iovec *iov, int count, off_t position) {
    struct stat st;
    struct tracked *entry = NULL;
    if (active && fd != log_fd) {
        pthread_mutex_lock(&lock);
        entry = tracked_fd(fd, &st);
        if (!entry) pthread_mutex_unlock(&lock);
    }
    if (entry) {
        off_t at = position;
        if (fcntl(fd, F_GETFL) & O_APPEND) at = st.st_size;
        else if (at < 0) at = lseek(fd, 0, SEEK_CUR);
        log_write(fd, entry, &st, iov, count, at);
    }
    ssize_t n = position < 0 ? syscall(SYS_writev, fd, iov, count) : syscall(SYS_pwritev, fd, iov, count, position, 0L);
    int saved = errno;
    if (entry) pthread_mutex_unlock(&lock);
    errno = saved;
    return n;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (!active) return syscall(SYS_write, fd, bytes, length);
    struct iovec one = {(void *)bytes, length};
    return write_any(fd, &one, 1, -1);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec one = {(void *)bytes, length};
    return write_any(fd, &one, 1, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwrite(fd, bytes, length, offset); }
ssize_t writev(int fd, const struct iovec *iov, int count) { return write_any(fd, iov, count, -1); }
ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t offset) { return write_any(fd, iov, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t at) { return write_any(fd, iov, count, at); }

static int resize_any(int fd, uint64_t size, int only_grow) {
    struct stat st;
    if (!active) return syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    struct tracked *entry = tracked_fd(fd, &st);
    if (entry && !(only_grow && size <= (uint64_t)st.st_size)) log_resize(fd, entry, &st, size);
    int result = 0;
    if (!only_grow || (entry && size > (uint64_t)st.st_size)) result = syscall(SYS_ftruncate, fd, size);
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int ftruncate(int fd, off_t size) { return resize_any(fd, size, 0); }
int ftruncate64(int fd, off64_t size) { return resize_any(fd, size, 0); }

static int is_ours_fd(int fd) {
    char path[PATH_MAX];
    return active && path_of(fd, path) && is_ours(path);
}
int posix_fallocate(int fd, off_t at, off_t length) {
    if (is_ours_fd(fd)) return resize_any(fd, at + length, 1) ? errno : 0;
    return syscall(SYS_fallocate, fd, 0, at, length) ? errno : 0;
}
int posix_fallocate64(int fd, off64_t at, off64_t length) { return posix_fallocate(fd, at, length); }
int fallocate(int fd, int mode, off_t at, off_t length) {
    if (!is_ours_fd(fd)) return syscall(SYS_fallocate, fd, mode, at, length);
    if (mode) die("fallocate with a mode is not modelled");
    return resize_any(fd, at + length, 1);
}
int fallocate64(int fd, int mode, off64_t at, off64_t length) { return fallocate(fd, mode, at, length); }

int fsync(int fd) { return sync_fd(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_fd(fd, SYS_fdatasync); }

void *mmap(void *where, size_t length, int protection, int flags, int fd, off_t offset) {
    if (fd >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED) && is_ours_fd(fd))
        die("a writable shared mapping is not modelled");
    return (void *)syscall(SYS_mmap, where, length, protection, flags, fd, offset);
}
void *mmap64(void *where, size_t length, int protection, int flags, int fd, off64_t offset) {
    return mmap(where, length, protection, flags, fd, offset);
}

/* Ways to change a file that are not used here; a program that begins to must teach them to the shim first. */
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t length, unsigned flags) {
    if (is_ours_fd(out)) die("copy_file_range is not modelled");
    return syscall(SYS_copy_file_range, in, in_at, out, out_at, length, flags);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    if (is_ours_fd(out)) die("sendfile is not modelled");
    return syscall(SYS_sendfile, out, in, offset, count);
}
int truncate(const char *path, off_t size) {
    char full[PATH_MAX];
    if (active && resolve(AT_FDCWD, path, full) && is_ours(full)) die("truncate by path is not modelled");
    return syscall(SYS_truncate, path, size);
}
int link(const char *from, const char *to) {
    char full[PATH_MAX];
    if (active && resolve(AT_FDCWD, to, full) && is_ours(full)) die("link is not modelled");
    return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- calls that change directories ----------------------------------------------------------------------------- */

static int unlink_any(int dirfd, const char *path, int flags) {
    char full[PATH_MAX];
    struct stat st;
    if (!active || (flags & AT_REMOVEDIR) || !resolve(dirfd, path, full) || !is_ours(full) || lstat(full, &st))
        return syscall(SYS_unlinkat, dirfd, path, flags);
    pthread_mutex_lock(&lock);
    keep(full, &st);
    struct tracked *dir = parent_of(full), *entry = find(st.st_dev, st.st_ino);
    struct record record = {.kind = UNLINK, .seq = ++seq, .ino = st.st_ino, .dir = dir->ino};
    dir->last = seq;
    if (entry) entry->unlinked = 1;
    append(&record, full, NULL, NULL, NULL, 0);
    int result = syscall(SYS_unlinkat, dirfd, path, flags), saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}
int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return unlink_any(dirfd, path, flags); }
int remove(const char *path) {
    struct stat st;
    return unlink_any(AT_FDCWD, path, !lstat(path, &st) && S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static int rename_any(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    char old_path[PATH_MAX], new_path[PATH_MAX];
    struct stat moved, replaced;
    if (!active || !resolve(from_dir, from, old_path) || !resolve(to_dir, to, new_path) ||
        !(is_ours(old_path) || is_ours(new_path)) || lstat(old_path, &moved))
        return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    if (!is_ours(old_path) || !is_ours(new_path) || (flags & ~RENAME_NOREPLACE)) die("this rename is not modelled");
    pthread_mutex_lock(&lock);
    struct tracked *dir = parent_of(new_path);
    struct record record = {.kind = RENAME, .seq = ++seq, .ino = moved.st_ino, .dir = dir->ino};
    if (!lstat(new_path, &replaced)) {
        keep(new_path, &replaced);
        record.replaced = replaced.st_ino;
        struct tracked *entry = find(replaced.st_dev, replaced.st_ino);
        if (entry) entry->unlinked = 1;
    }
    dir->last = seq;
    append(&record, old_path, new_path, NULL, NULL, 0);
    /* The log already says it happened, so it must. */
    if (syscall(SYS_renameat2, from_dir, from, to_dir, to, flags)) die("a rename failed");
    pthread_mutex_unlock(&lock);
    return 0;
}
int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return rename_any(from_dir, from, to_dir, to, 0);
}
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    return rename_any(from_dir, from, to_dir, to, flags);
}
