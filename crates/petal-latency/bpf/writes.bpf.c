// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Bytes that are written to block devices, by their origin. Bytes take the place of times: a series
// has their sum, and a histogram of the sizes.

// The same numbers are in writes.rs.
enum { DEVICES = 16, FOLDERS = 64, LOG_FILES = 8, SERIES = 8, TIMES = 1 };
enum origin { FILE_SYSTEM, LOG, DATA, DIRECT, OTHERS };

#include "common.bpf.h"

// REQ_META, and the kinds of a file in its mode.
enum { META = 1 << 12, DEEPEST = 6, KIND = 0170000, REGULAR = 0100000, BLOCK_DEVICE = 0060000 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
struct inode { u16 i_mode; u64 i_ino; struct hlist_head i_dentry; };
struct dentry { struct dentry *d_parent; struct inode *d_inode; union { struct hlist_node d_alias; } d_u; };
struct address_space { struct inode *host; };
struct page { u64 compound_head; struct address_space *mapping; };
struct bio_vec { struct page *bv_page; };
struct bvec_iter { u32 bi_size; };
struct block_device { u32 bd_dev; };
struct bio { struct block_device *bi_bdev; u32 bi_opf; struct bvec_iter bi_iter; struct bio_vec *bi_io_vec; };
#pragma clang attribute pop

// Set before the programs are loaded: devices, inodes of the database's files and folders, and of
// the log's among them.
const volatile u32 devices[DEVICES] = {};
const volatile u64 folders[FOLDERS] = {};
const volatile u64 log_files[LOG_FILES] = {};

INLINE u32 is_watched(u32 device)
{
	u32 found = 0;
#pragma unroll
	for (u32 i = 0; i < DEVICES; i++)
		found |= devices[i] == device;
	return found;
}

INLINE u32 is_log(u64 number)
{
	u32 found = 0;
#pragma unroll
	for (u32 i = 0; i < LOG_FILES; i++)
		found |= log_files[i] == number;
	return found && number;
}

INLINE u32 is_of_database(u64 number)
{
	for (u32 i = 0; i < FOLDERS && folders[i]; i++)
		if (folders[i] == number)
			return 1;
	return 0;
}

// By the file, and by the folders above it.
INLINE u32 origin_of_file(struct inode *inode)
{
	u64 number = GET(inode, i_ino);
	if (is_log(number))
		return LOG;
	u32 of_database = is_of_database(number);
	if (!EXISTS(struct dentry, d_u.d_alias))
		return of_database ? DATA : OTHERS;
	struct hlist_node *name = GET(inode, i_dentry.first);
	if (!name)
		return of_database ? DATA : OTHERS;
	struct dentry *dentry = (void *)name - __builtin_preserve_field_info(((struct dentry *)0)->d_u.d_alias, 0);
	for (u32 i = 0; i < DEEPEST && !of_database; i++) {
		struct dentry *folder = GET(dentry, d_parent);
		if (!folder || folder == dentry)
			break;
		struct inode *of_folder = GET(folder, d_inode);
		number = GET(of_folder, i_ino);
		if (is_log(number))
			return LOG;
		of_database = is_of_database(number);
		dentry = folder;
	}
	return of_database ? DATA : OTHERS;
}

INLINE u32 origin_of(struct bio *bio)
{
	if (bio->bi_opf & META)
		return FILE_SYSTEM;
	struct bio_vec *first = bio->bi_io_vec;
	struct page *page = GET(first, bv_page);
	u64 head = GET(page, compound_head);
	if (head & 1)
		page = (void *)(head - 1);
	struct address_space *mapping = GET(page, mapping);
	// A page of a process, or of nobody: written past the page cache.
	if (mapping && !((u64)mapping & 3)) {
		struct inode *inode = GET(mapping, host);
		u32 kind = GET(inode, i_mode) & KIND;
		if (kind == BLOCK_DEVICE)
			return FILE_SYSTEM;
		return kind == REGULAR ? origin_of_file(inode) : OTHERS;
	}
	u32 first_key = 0;
	struct caches *all = map_lookup(&caches, &first_key);
	return all && is_own(all) ? DIRECT : OTHERS;
}

SEC("tp_btf/queue") int queue(u64 *arguments)
{
	struct bio *bio = (struct bio *)arguments[0];
	u32 operation = bio->bi_opf & 0xff;
	u64 bytes = bio->bi_iter.bi_size;
	// Odd ones write, but discards (3) and secure erasure (5) do not.
	if (!(operation & 1) || operation == 3 || operation == 5 || !bytes)
		return 0;
	if (!is_watched(bio->bi_bdev->bd_dev))
		return 0;
	struct histograms *all = histograms_of(origin_of(bio));
	if (all)
		count(all, 0, bytes);
	return 0;
}
