// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Parts of all programs. build.sh compiles each file to the object next to it, which is part of petal's
// program, so that petal's build needs no clang.
//
// The license differs from petal's because the kernel lets only such programs read its structures.
// They need no kernel headers: their structures name only the fields in use, and the loader finds
// the places of these in the type information of the running kernel.

typedef unsigned short u16;
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
struct file;
struct fdtable { struct file **fd; };
struct files_struct { struct fdtable *fdt; };
struct task_struct { s32 tgid; struct task_struct *real_parent; struct files_struct *files; };
#pragma clang attribute pop

#define GET(pointer, field) ({ typeof((pointer)->field) value_ = 0; probe_read_kernel(&value_, sizeof value_, &(pointer)->field); value_; })
// BPF_FIELD_EXISTS is 2.
#define EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)

// The same numbers are in the loader.
enum { OWNERS = 8, WAYS = 4, SLOTS = 16384, CACHED = 64, BUCKETS = 1024 };

// Four fill two cache lines. The lowest bit of the key is set while the slot is in use: one
// exchange claims a slot, so that two processors never get the same one.
struct slot { u64 key, begin_ns; u32 series, mark; u64 since; };
enum { IN_USE = 1 };
struct histograms { u64 total_ns[TIMES], buckets[TIMES][BUCKETS]; };
struct state { u64 lost, active[SERIES]; };
struct caches { u64 queues[CACHED], processes[CACHED]; };

// Histograms of each series, for each processor. The loader may set a smaller number.
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

// Places of queues in `devices`, and processes that are owners. petal clears them each second: a
// device may be replaced, a process may end.
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct caches);
} caches SEC(".maps");

// Set before the programs are loaded.
const volatile u32 owners[OWNERS] = {};
const volatile u32 with_children = 0;

// Begun and not ended yet, in sets of WAYS. A slot stays with its key, which comes again, until
// another one needs the place.
struct slot slots[SLOTS] __attribute__((aligned(64)));

// Hides a number from the compiler, which else drops the mask that the kernel asks for.
INLINE u32 hidden(u32 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

// An even number for a structure of the kernel: the kernel permits no arithmetic with its address
// but the difference to another address.
INLINE u64 number_of(void *structure)
{
	u64 number = (u64)structure - (u64)slots;
	asm volatile("" : "+r"(number));
	return number;
}

// The four slots that an event may have.
INLINE struct slot *slots_for(u64 key)
{
	return &slots[(u32)((HASH * key) >> 40) & (SLOTS - WAYS)];
}

// The slot of an event that began. The key is even.
INLINE struct slot *begun(u64 key)
{
	struct slot *four = slots_for(key);
#pragma unroll
	for (int i = 0; i < WAYS; i++)
		if (four[i].key == (key | IN_USE))
			return &four[i];
	return 0;
}

// A slot for an event that begins: the one of its key before, or one that is not in use.
INLINE struct slot *claim(u64 key)
{
	struct slot *four = slots_for(key);
#pragma unroll
	for (int i = 0; i < WAYS; i++)
		if (four[i].key == key && __sync_val_compare_and_swap(&four[i].key, key, key | IN_USE) == key)
			return &four[i];
#pragma unroll
	for (int i = 0; i < WAYS; i++) {
		u64 old = four[i].key;
		if (!(old & IN_USE) && __sync_val_compare_and_swap(&four[i].key, old, key | IN_USE) == old)
			return &four[i];
	}
	return 0;
}

INLINE void count_lost(void)
{
	u32 first_key = 0;
	struct state *counts = map_lookup(&state, &first_key);
	if (counts)
		__sync_fetch_and_add(&counts->lost, 1);
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
INLINE u32 is_own(struct caches *caches)
{
	u32 process = current_pid_tgid() >> 32;
	u64 *known = &caches->processes[(HASH * process) >> 58];
	if (*known >> 1 == process)
		return *known & 1;
	u32 found = is_owner(process);
	if (!found && with_children) {
		struct task_struct *task = current_task();
		struct task_struct *parent = GET(task, real_parent);
		found = is_owner((u32)GET(parent, tgid));
	}
	*known = (u64)process << 1 | found;
	return found;
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

INLINE void count(struct histograms *all, u32 time, u64 ns)
{
	all->buckets[time][hidden(bucket_of(ns)) & (BUCKETS - 1)] += 1;
	all->total_ns[time] += ns;
}

// The histograms of a series, which is then known to have counts.
INLINE struct histograms *histograms_of(u32 at)
{
	u32 first_key = 0;
	struct state *counts = map_lookup(&state, &first_key);
	if (counts && at < SERIES && !counts->active[hidden(at) & (SERIES - 1)])
		counts->active[hidden(at) & (SERIES - 1)] = 1;
	return map_lookup(&series, &at);
}

// The loader's test compares it with the source.
char source_[] SEC("source") = SOURCE;
char license_[] SEC("license") = "Dual MIT/GPL";
