// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Times of a database's own calls that read, write and sync files, counted in the kernel as
// histograms.

// The same numbers are in calls.rs.
enum { CALLS = 12, LOG_FILES = 8, KINDS = 4, SERIES = KINDS * 2, TIMES = 1 };

#include "common.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode { u16 i_mode; u64 i_ino; };
struct dentry { struct dentry *d_parent; struct inode *d_inode; };
struct path { struct dentry *dentry; };
struct file { struct path f_path; struct inode *f_inode; };
// The first argument of a call.
struct pt_regs___x86 { u64 di; };
struct pt_regs___arm { u64 orig_x0; };
#pragma clang attribute pop

// Set before the programs are loaded: number and kind of each call, and the inodes of the log's
// files and folders.
const volatile u32 numbers[CALLS] = {};
const volatile u32 kinds[CALLS] = {};
const volatile u64 log_files[LOG_FILES] = {};

INLINE u32 kind_of(u32 number)
{
	u32 kind = KINDS;
#pragma unroll
	for (u32 i = 0; i < CALLS; i++)
		if (numbers[i] == number)
			kind = kinds[i];
	return kind;
}

INLINE u64 first_argument(void *registers)
{
	if (EXISTS(struct pt_regs___x86, di))
		return ((struct pt_regs___x86 *)registers)->di;
	if (EXISTS(struct pt_regs___arm, orig_x0))
		return ((struct pt_regs___arm *)registers)->orig_x0;
	return -1;
}

INLINE u32 is_log(u64 inode)
{
	u32 found = 0;
#pragma unroll
	for (u32 i = 0; i < LOG_FILES; i++)
		found |= log_files[i] == inode;
	return found && inode;
}

// 0: the file holds data, 1: log, 2: it is no regular file.
INLINE u32 group_of(u32 descriptor)
{
	struct task_struct *task = current_task();
	struct files_struct *files = GET(task, files);
	struct fdtable *table = GET(files, fdt);
	struct file **all = GET(table, fd);
	struct file *file = 0;
	probe_read_kernel(&file, sizeof file, &all[descriptor]);
	if (!file)
		return 2;
	struct inode *inode = GET(file, f_inode);
	if ((GET(inode, i_mode) & 0170000) != 0100000)
		return 2;
	if (is_log(GET(inode, i_ino)))
		return 1;
	struct dentry *dentry = GET(file, f_path.dentry);
	struct dentry *folder = GET(dentry, d_parent);
	struct inode *of_folder = GET(folder, d_inode);
	return is_log(GET(of_folder, i_ino));
}

INLINE struct caches *own_caches(void)
{
	u32 first_key = 0;
	struct caches *all = map_lookup(&caches, &first_key);
	return all && is_own(all) ? all : 0;
}

// A thread is in one call at a time.
INLINE u64 call_key(void)
{
	return (u64)(u32)current_pid_tgid() << 1;
}

SEC("tp_btf/sys_enter") int enter(u64 *arguments)
{
	if (!own_caches())
		return 0;
	u32 kind = kind_of(arguments[1]);
	if (kind >= KINDS)
		return 0;
	u32 group = group_of(first_argument((void *)arguments[0]));
	if (group > 1)
		return 0;
	u64 key = call_key();
	struct slot *slot = begun(key); // its end was missed
	slot = slot ? slot : claim(key);
	if (!slot) {
		count_lost();
		return 0;
	}
	slot->series = kind * 2 + group;
	slot->begin_ns = ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit") int leave(u64 *arguments)
{
	if (!own_caches())
		return 0;
	u64 key = call_key();
	struct slot *slot = begun(key);
	if (!slot)
		return 0;
	u64 ns = ktime_get_ns() - slot->begin_ns;
	u32 at = slot->series;
	slot->key = key;
	// Of a call that failed the time means nothing.
	if ((long long)arguments[1] < 0)
		return 0;
	struct histograms *all = histograms_of(at);
	if (all)
		count(all, 0, ns);
	return 0;
}
