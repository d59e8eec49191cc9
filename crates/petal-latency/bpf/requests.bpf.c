// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Times of block requests, counted in the kernel as histograms.

// The same numbers are in requests.rs.
enum { DEVICES = 16, KINDS = 4, SERIES = DEVICES * KINDS * 2, UNWATCHED = 0xff };
enum time { SERVICE, QUEUE, TOTAL, TIMES };

#include "common.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk { s32 major; s32 first_minor; };
struct request_queue { struct gendisk *disk; };
struct request { struct request_queue *q; u32 cmd_flags; u64 start_time_ns; };
// Before Linux 5.17.
struct request___with_disk { struct gendisk *rq_disk; };
#pragma clang attribute pop

// Set before the programs are loaded.
const volatile u32 devices[DEVICES] = {};

INLINE u32 place_of(u32 device)
{
#pragma unroll
	for (u32 i = 0; i < DEVICES; i++)
		if (devices[i] == device)
			return i;
	return UNWATCHED;
}

INLINE u32 device_of(struct request *rq, struct caches *caches)
{
	struct request_queue *q = rq->q;
	u64 number = number_of(q);
	u64 *known = &caches->queues[(HASH * number) >> 58];
	u64 tag = number << 8;
	if ((*known & ~0xffULL) == tag)
		return *known & 0xff;
	struct gendisk *disk;
	if (EXISTS(struct request___with_disk, rq_disk))
		disk = ((struct request___with_disk *)rq)->rq_disk;
	else
		disk = q->disk;
	if (!disk)
		return UNWATCHED;
	u32 place = place_of((u32)disk->major << 20 | (u32)disk->first_minor);
	*known = tag | place;
	return place;
}

INLINE s32 series_of(struct request *rq)
{
	u32 first_key = 0;
	struct caches *all = map_lookup(&caches, &first_key);
	if (!all)
		return -1;
	u32 place = device_of(rq, all);
	if (place >= DEVICES)
		return -1;
	u32 operation = rq->cmd_flags & 0xff; // REQ_OP_MASK
	if (operation >= 32) // of a driver, not of a file system
		return -1;
	// 0 read, 1 write, 2 flush, 3 discard; other odd ones write, as /proc/diskstats counts them.
	u32 kind = operation == 2 || operation == 3 ? operation : operation & 1;
	return (place * KINDS + kind) * 2 + is_own(all);
}

// The slot of a request in progress. On a busy host the kernel runs no program for a few ends, and
// counts no skipped run: they are found and counted when the request's memory is used again.
INLINE struct slot *in_progress(struct request *rq, u64 key)
{
	struct slot *slot = begun(key);
	if (!slot || slot->since == rq->start_time_ns)
		return slot;
	count_lost();
	slot->key = key;
	return 0;
}

INLINE struct slot *starts(struct request *rq, u64 key, s32 at)
{
	struct slot *slot = claim(key);
	if (slot) {
		slot->series = at;
		slot->begin_ns = 0;
		slot->since = rq->start_time_ns;
	}
	return slot;
}

// The process that inserts a request owns it: another one may issue it.
INLINE int inserted(struct request *rq)
{
	s32 at = series_of(rq);
	u64 key = number_of(rq);
	if (at >= 0 && !in_progress(rq, key))
		starts(rq, key, at);
	return 0;
}

// A request that was requeued is issued again: the device has it since the last time.
INLINE int issued(struct request *rq)
{
	u64 key = number_of(rq);
	struct slot *slot = in_progress(rq, key);
	if (!slot) {
		s32 at = series_of(rq);
		if (at < 0)
			return 0;
		slot = starts(rq, key, at);
		if (!slot) {
			count_lost();
			return 0;
		}
	}
	slot->begin_ns = ktime_get_ns();
	return 0;
}

INLINE int completed(struct request *rq)
{
	u64 key = number_of(rq);
	struct slot *slot = begun(key);
	if (!slot)
		return 0;
	u64 issue_ns = slot->begin_ns;
	u32 at = slot->series;
	slot->key = key;
	if (!issue_ns)
		return 0;
	u64 now = ktime_get_ns();
	struct histograms *all = histograms_of(at);
	if (!all)
		return 0;
	count(all, SERVICE, now - issue_ns);
	// The kernel sets it for its own statistics; 0 if they are off (queue/iostats).
	u64 start_ns = rq->start_time_ns;
	if (start_ns && start_ns <= issue_ns) {
		count(all, QUEUE, issue_ns - start_ns);
		count(all, TOTAL, now - start_ns);
	}
	return 0;
}

#define REQUEST ((struct request *)arguments[0])
SEC("tp_btf/insert") int insert(u64 *arguments) { return inserted(REQUEST); }
SEC("tp_btf/issue") int issue(u64 *arguments) { return issued(REQUEST); }
SEC("tp_btf/complete") int complete(u64 *arguments) { return completed(REQUEST); }

// Does nothing: its time in the kernel's statistics of programs is what the measuring costs.
SEC("tp_btf/nothing") int nothing(u64 *arguments) { return 0; }
