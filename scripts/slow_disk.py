"""A disk that is slow itself, as root on Linux: ext4 on a loop device over one FUSE file in memory.

A read is answered after read_ms, AT_ONCE of them at the same time: so it serves AT_ONCE / read_ms
reads per millisecond. A sync is answered after sync_ms. All other requests are answered at once.
"""
import errno, heapq, itertools, mmap, os, select, struct, subprocess, threading, time

AT_ONCE = 4
# Numbers of the kernel's protocol (linux/fuse.h): requests, and one write's largest length.
GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, ACCESS = 3, 4, 14, 15, 16, 17, 18, 20, 25, 26, 34
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
WRITE_MAX = 128 << 10
# Asynchronous reads, large writes, asynchronous direct I/O.
FLAGS = 1 | 1 << 5 | 1 << 15
BACKGROUND = 64


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, text=True, stdout=subprocess.PIPE, **more).stdout.strip()


class SlowDisk:
    def __init__(self, place, mebibytes):
        """Mounts it at `place`, a folder that it makes."""
        self.place, self.image = place, place.with_suffix(".image")
        self.read_ms = self.sync_ms = 0.0
        self.memory = mmap.mmap(-1, mebibytes << 20)
        self.free, self.held, self.turns = [0.0] * AT_ONCE, [], itertools.count()
        self.image.touch()
        place.mkdir()
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        # The root of this file system is a file.
        options = f"fd={self.fuse},rootmode=100000,user_id=0,group_id=0"
        threading.Thread(target=self.serve, daemon=True).start()
        run("mount", "-i", "-t", "fuse", "-o", options, "petal-slow-disk", self.image, pass_fds=[self.fuse])
        self.device = run("losetup", "--find", "--show", "--direct-io=on", self.image)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device)
        run("mount", "-o", "noatime", self.device, place)

    def remove(self):
        self.read_ms = self.sync_ms = 0.0
        # A run that was cut short may still use it.
        run("umount", "-l", self.place)
        run("losetup", "-d", self.device)
        run("umount", "-l", self.image)

    def serve(self):
        while True:
            rest = max(self.held[0][0] - time.monotonic(), 0) if self.held else None
            select.select([self.fuse], [], [], rest)
            now = time.monotonic()
            while self.held and self.held[0][0] <= now:
                os.write(self.fuse, heapq.heappop(self.held)[2])
            try:
                request = os.read(self.fuse, WRITE_MAX + 8192)
            except OSError as why:
                if why.errno == errno.ENODEV:
                    return
                # Not mounted yet.
                if why.errno == errno.EPERM:
                    time.sleep(0.01)
                continue
            kind, unique = struct.unpack_from("<IQ", request, 4)
            if kind in (FORGET, INTERRUPT, BATCH_FORGET):
                continue
            answer = self.answer(kind, request[40:])
            error = -errno.ENOSYS if answer is None else 0
            answer = struct.pack("<IiQ", 16 + len(answer or b""), error, unique) + (answer or b"")
            due = self.due(kind, now)
            if due > now:
                heapq.heappush(self.held, (due, next(self.turns), answer))
            else:
                os.write(self.fuse, answer)

    def due(self, kind, now):
        """The time of the answer: a read takes the place that is free first."""
        if kind == READ and self.read_ms:
            due = max(heapq.heappop(self.free), now) + self.read_ms / 1e3
            heapq.heappush(self.free, due)
            return due
        return now + self.sync_ms / 1e3 if kind == FSYNC else now

    def answer(self, kind, body):
        """None for a request that it does not know."""
        if kind == INIT:
            version = struct.unpack_from("<IIII", body)
            shown = (7, 31, version[2], FLAGS & version[3], BACKGROUND, BACKGROUND, WRITE_MAX, 1)
            return struct.pack("<IIIIHHII", *shown).ljust(64, b"\0")
        if kind in (GETATTR, SETATTR):
            size = len(self.memory)
            return bytes(16) + struct.pack("<6Q10I", 1, size, size // 512, 0, 0, 0, 0, 0, 0, 0o100600, 1, 0, 0, 0, 4096, 0)
        if kind in (READ, WRITE):
            offset, length = struct.unpack_from("<QI", body, 8)
            if kind == READ:
                return self.memory[offset : offset + length]
            self.memory[offset : offset + length] = body[40 : 40 + length]
            return struct.pack("<II", length, 0)
        if kind == STATFS:
            return bytes(80)
        return {OPEN: bytes(16), RELEASE: b"", FSYNC: b"", FLUSH: b"", ACCESS: b""}.get(kind)
