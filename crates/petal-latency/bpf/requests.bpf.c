// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Times of block requests, counted in the kernel as histograms. build.sh compiles it to the object
// next to it, which is part of petal's program, so that petal's build needs no clang.
//
// The license differs from petal's because the kernel lets only such programs read its structures.
// It needs no kernel headers: the structures below name only the fields in use, and the loader finds
// their places in the type information of the running kernel.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

#define HASH 0x9E3779B97F4A7C15ULL
#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u64 (*current_pid_tgid)(void) = (void *)14;
static void *(*current_task)(void) = (void *)35;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk { s32 major; s32 first_minor; };
struct request_queue { struct gendisk *disk; };
struct request { struct request_queue *q; u32 cmd_flags; };
// Before Linux 5.17.
struct request___with_disk { struct gendisk *rq_disk; };
struct task_struct { s32 tgid; struct task_struct *real_parent; };
#pragma clang attribute pop

#define GET(pointer, field) ({ typeof((pointer)->field) value_ = 0; probe_read_kernel(&value_, sizeof value_, &(pointer)->field); value_; })
// BPF_FIELD_EXISTS is 2.
#define EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)

// The same numbers are in lib.rs.
enum { DEVICES = 16, KINDS = 4, OWNERS = 8, WAYS = 4, SLOTS = 16384, QUEUES = 64, BUCKETS = 1024 };
enum { SERIES = DEVICES * KINDS * 2, UNWATCHED = 0xff };

struct slot { u64 request, insert_ns, issue_ns; u32 series; u32 pad; };
struct histograms { u64 service_ns, queue_ns, service[BUCKETS], queue[BUCKETS]; };
struct state { u64 lost, active[SERIES]; };
struct queues { u64 known[QUEUES]; };

// A histogram pair per device, kind and process, for each processor. The loader sets the number.
struct {
	__uint(type, 6); // BPF_MAP_TYPE_PERCPU_ARRAY
	__uint(max_entries, SERIES);
	__type(key, u32);
	__type(value, struct histograms);
} series SEC(".maps");

struct {
	__uint(type, 2); // BPF_MAP_TYPE_ARRAY
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct state);
} state SEC(".maps");

// Places of queues in `devices`, which petal clears each second: a device may be replaced.
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queues);
} queues SEC(".maps");

// Set before the programs are loaded.
const volatile u32 devices[DEVICES] = {};
const volatile u32 owners[OWNERS] = {};
const volatile u32 with_children = 0;

// Requests in flight, in sets of WAYS. A slot stays with its request structure, which the kernel
// reuses, until another one needs the place.
struct slot slots[SLOTS] __attribute__((aligned(64)));

// Hides a number from the compiler, which else drops the mask that the kernel asks for.
INLINE u32 hidden(u32 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

enum claim { KNOWN, CLAIM, CLAIM_OR_COUNT };

INLINE struct slot *find(u64 request, enum claim claim)
{
	u32 first = (u32)((HASH * request) >> 40) & (SLOTS - WAYS);
	struct slot *four = &slots[first];
#pragma unroll
	for (int i = 0; i < WAYS; i++)
		if (four[i].request == request)
			return &four[i];
	if (claim == KNOWN)
		return 0;
#pragma unroll
	for (int i = 0; i < WAYS; i++)
		if (!four[i].insert_ns && !four[i].issue_ns) {
			four[i].request = request;
			return &four[i];
		}
	if (claim == CLAIM)
		return 0;
	u32 first_key = 0;
	struct state *counts = map_lookup(&state, &first_key);
	if (counts)
		__sync_fetch_and_add(&counts->lost, 1);
	return 0;
}

INLINE u32 place_of(u32 device)
{
#pragma unroll
	for (u32 i = 0; i < DEVICES; i++)
		if (devices[i] == device)
			return i;
	return UNWATCHED;
}

INLINE u32 device_of(struct request *rq, struct request_queue *q)
{
	u32 first_key = 0;
	struct queues *all = map_lookup(&queues, &first_key);
	if (!all)
		return UNWATCHED;
	u64 *known = &all->known[(HASH * (u64)q) >> 58];
	u64 tag = (u64)q << 8;
	if ((*known & ~0xffULL) == tag)
		return *known & 0xff;
	struct gendisk *disk;
	if (EXISTS(struct request___with_disk, rq_disk))
		disk = GET((struct request___with_disk *)rq, rq_disk);
	else
		disk = GET(q, disk);
	if (!disk)
		return UNWATCHED;
	u32 place = place_of((u32)GET(disk, major) << 20 | (u32)GET(disk, first_minor));
	*known = tag | place;
	return place;
}

INLINE u32 is_owner(u32 process)
{
	u32 found = 0;
#pragma unroll
	for (u32 i = 0; i < OWNERS; i++)
		found |= owners[i] == process;
	return found && process;
}

// Whether the current process, or with `with_children` its parent, is an owner.
INLINE u32 is_own(void)
{
	u32 process = current_pid_tgid() >> 32;
	if (is_owner(process))
		return 1;
	if (!with_children)
		return 0;
	struct task_struct *task = current_task();
	struct task_struct *parent = GET(task, real_parent);
	return is_owner((u32)GET(parent, tgid));
}

INLINE s32 series_of(struct request *rq)
{
	u32 place = device_of(rq, GET(rq, q));
	if (place >= DEVICES)
		return -1;
	u32 operation = GET(rq, cmd_flags) & 0xff; // REQ_OP_MASK
	if (operation >= 32) // of a driver, not of a file system
		return -1;
	// 0 read, 1 write, 2 flush, 3 discard; other odd ones write, as /proc/diskstats counts them.
	u32 kind = operation == 2 || operation == 3 ? operation : operation & 1;
	return (place * KINDS + kind) * 2 + is_own();
}

INLINE int inserted(u64 rq)
{
	s32 at = series_of((struct request *)rq);
	if (at < 0)
		return 0;
	struct slot *slot = find(rq, CLAIM);
	if (slot) {
		slot->series = at;
		slot->issue_ns = 0;
		slot->insert_ns = ktime_get_ns();
	}
	return 0;
}

// A request that was requeued is issued again: the device has it since the last time.
INLINE int issued(u64 rq)
{
	struct slot *slot = find(rq, KNOWN);
	if (!slot || !(slot->insert_ns | slot->issue_ns)) {
		s32 at = series_of((struct request *)rq);
		if (at < 0)
			return 0;
		slot = slot ? slot : find(rq, CLAIM_OR_COUNT);
		if (!slot)
			return 0;
		slot->series = at;
	}
	slot->issue_ns = ktime_get_ns();
	return 0;
}

// 32 buckets per power of two.
INLINE u32 bucket_of(u64 ns)
{
	if (ns < 64)
		return ns;
	if (ns >> 36)
		return BUCKETS - 1;
	u32 bits = 0;
	u64 rest = ns >> 6;
	if (rest >> 16) { bits += 16; rest >>= 16; }
	if (rest >> 8) { bits += 8; rest >>= 8; }
	if (rest >> 4) { bits += 4; rest >>= 4; }
	if (rest >> 2) { bits += 2; rest >>= 2; }
	if (rest >> 1) bits += 1;
	bits += 1;
	return (bits << 5) + (u32)(ns >> bits);
}

INLINE int completed(u64 rq)
{
	struct slot *slot = find(rq, KNOWN);
	if (!slot)
		return 0;
	u64 issue_ns = slot->issue_ns, insert_ns = slot->insert_ns;
	slot->insert_ns = 0;
	slot->issue_ns = 0;
	if (!issue_ns)
		return 0;
	u64 service_ns = ktime_get_ns() - issue_ns;
	u32 at = slot->series;
	struct histograms *all = map_lookup(&series, &at);
	if (!all)
		return 0;
	u32 first_key = 0;
	struct state *counts = map_lookup(&state, &first_key);
	if (counts && !counts->active[hidden(at) & (SERIES - 1)])
		counts->active[hidden(at) & (SERIES - 1)] = 1;
	all->service[hidden(bucket_of(service_ns)) & (BUCKETS - 1)] += 1;
	all->service_ns += service_ns;
	if (insert_ns) {
		u64 queue_ns = issue_ns - insert_ns;
		all->queue[hidden(bucket_of(queue_ns)) & (BUCKETS - 1)] += 1;
		all->queue_ns += queue_ns;
	}
	return 0;
}

// Since Linux 5.11 the request is the first argument of both events, before that the second. The
// kernel refuses a program that reads a second argument where there is none.
SEC("raw_tp/insert") int insert(u64 *arguments) { return inserted(arguments[0]); }
SEC("raw_tp/insert_2") int insert_2(u64 *arguments) { return inserted(arguments[1]); }
SEC("raw_tp/issue") int issue(u64 *arguments) { return issued(arguments[0]); }
SEC("raw_tp/issue_2") int issue_2(u64 *arguments) { return issued(arguments[1]); }
SEC("raw_tp/complete") int complete(u64 *arguments) { return completed(arguments[0]); }

// The loader's test compares it with the source.
char source_[] SEC("source") = SOURCE;
char license_[] SEC("license") = "Dual MIT/GPL";
