// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The time of threads that execute operations, divided by state: on a processor, waiting for one,
// or blocked, and in which kind of call. Counted in the kernel as histograms of single stretches.

// The same numbers are in threads.rs.
enum { CALLS = 512, SERIES = 64, TIMES = 1 };
enum call { NO_CALL, READ_CALL, WRITE_CALL, RECEIVE_CALL, SEND_CALL, SOCKET_WAIT, SLEEP_CALL, FUTEX_CALL, PAUSE_CALL, RESUME_CALL };
enum { CPU, READ_CPU, READ_WAIT, WRITE, QUEUE, WAKE, SOCKET, OTHER, SPAN, SERVER = 16, OF_OTHERS = 32 };

#include "common.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___now { s32 pid; u32 __state; };
// Before Linux 5.14.
struct task_struct___before { long state; };
// The arguments of a call.
struct pt_regs___x86 { u64 di, r10; };
struct pt_regs___arm { u64 regs[31], orig_x0; };
struct inode { u16 i_mode; };
struct sock_common { u16 skc_family, skc_dport, skc_num; };
struct sock { struct sock_common __sk_common; };
struct unix_sock { struct sock *peer; };
struct socket { struct sock *sk; };
struct file { void *private_data; struct inode *f_inode; };
#pragma clang attribute pop

static long (*current_comm)(void *to, u32 size) = (void *)16;

// Set before the programs are loaded: the kind of each call by its number, and petal's process, of
// which only the sessions' threads count.
const volatile unsigned char kinds[CALLS] = {};
const volatile u32 petal = 0;

// A slot's `series` is the thread's state, `begin_ns` its begin. The other side has the turn from
// the begin of a send until something arrives (`mark`) and is received. A server's span is its own
// turn, and begins at `since`. A socket's slot has its thread in `since`. A server's thread is of
// a session if the other end of its socket is. A session pauses between operations; its server's
// thread does not count then, either.
enum { RUNNING, READY, BLOCKED, MODES = 3, CALL_SHIFT = 2, CALL_MASK = 15 << CALL_SHIFT, OF_SERVER = 64, IN_SPAN = 128, SENT = 256, OF_SESSION = 512, PAUSED = 1024 };

INLINE void add(u32 at, u64 ns)
{
	struct histograms *all = histograms_of(at);
	if (all)
		count(all, 0, ns);
}

INLINE u32 call_of(u32 state) { return (state & CALL_MASK) >> CALL_SHIFT; }

INLINE u32 base_of(u32 state)
{
	return !(state & OF_SERVER) ? 0 : state & OF_SESSION ? SERVER : OF_OTHERS;
}

// The series of a state; SERIES if its time does not count.
INLINE u32 series_of(u32 state, u32 has_arrived)
{
	u32 mode = state & MODES, call = call_of(state), server = state & OF_SERVER;
	u32 base = base_of(state);
	if (call == SLEEP_CALL || state & PAUSED)
		return SERIES;
	if (server && !(state & IN_SPAN))
		return mode == READY && has_arrived ? base + WAKE : SERIES;
	// Whatever petal's thread does meanwhile: the request is on its way, or at the server.
	if (state & SENT && !has_arrived)
		return base + SOCKET;
	if (mode == READY)
		return base + QUEUE;
	if (call == READ_CALL)
		return base + (mode == RUNNING ? READ_CPU : READ_WAIT);
	if (call == WRITE_CALL)
		return base + WRITE;
	if (call >= RECEIVE_CALL && call <= SOCKET_WAIT && !server)
		return base + SOCKET;
	return base + (mode == RUNNING ? CPU : OTHER);
}

// Counts the time of the state until now, and begins the next one.
INLINE void change(struct slot *slot, u32 state, u64 now)
{
	u32 at = series_of(slot->series, slot->mark);
	u64 begin_ns = slot->begin_ns;
	slot->begin_ns = now;
	slot->series = state;
	if (at < SERIES && now > begin_ns)
		add(at, now - begin_ns);
}

INLINE u64 key_of(u32 thread) { return (u64)thread << 1; }

// The slot of the current thread; a new one for a session's thread, and for a thread of the server
// that receives.
INLINE struct slot *current_slot(u32 call)
{
	u64 both = current_pid_tgid();
	u64 key = key_of(both);
	struct slot *slot = begun(key);
	if (slot)
		return slot;
	u32 state = RUNNING;
	if ((u32)(both >> 32) == petal) {
		u64 name[2] = {};
		current_comm(name, sizeof name);
		if (name[0] != 0x206e6f6973736573ULL) // "session "
			return 0;
	} else {
		u32 first_key = 0;
		struct caches *all = map_lookup(&caches, &first_key);
		if (call != RECEIVE_CALL || !all || !is_own(all))
			return 0;
		state |= OF_SERVER;
	}
	slot = claim(key);
	if (!slot) {
		count_lost();
		return 0;
	}
	slot->series = state;
	slot->since = slot->mark = 0;
	slot->begin_ns = ktime_get_ns();
	return slot;
}

INLINE void remember(u64 key, u64 thread)
{
	struct slot *slot = begun(key);
	slot = slot ? slot : claim(key);
	if (slot)
		slot->since = thread;
}

INLINE u32 swapped(u16 port) { return (u16)(port >> 8 | port << 8); }

// A connection by the ports of both ends, as a key of a slot.
INLINE u64 ports_key(u32 near, u32 far) { return 1ULL << 40 | (u64)near << 17 | (u64)far << 1; }

// Remembers which thread receives from a socket, and whether the other end is a session's.
INLINE void owns_socket(void *registers, struct slot *thread)
{
	u64 descriptor = -1;
	if (EXISTS(struct pt_regs___x86, di))
		descriptor = ((struct pt_regs___x86 *)registers)->di;
	else if (EXISTS(struct pt_regs___arm, orig_x0))
		descriptor = ((struct pt_regs___arm *)registers)->orig_x0;
	struct task_struct *task = current_task();
	struct files_struct *files = GET(task, files);
	struct fdtable *table = GET(files, fdt);
	struct file **all = GET(table, fd);
	struct file *file = 0;
	probe_read_kernel(&file, sizeof file, &all[(u32)descriptor]);
	if (!file)
		return;
	struct inode *inode = GET(file, f_inode);
	if ((GET(inode, i_mode) & 0170000) != 0140000) // S_IFSOCK
		return;
	struct socket *socket = GET(file, private_data);
	struct sock *sk = GET(socket, sk);
	u64 thread_key = thread->key & ~(u64)IN_USE;
	remember((u64)sk, thread_key);
	struct slot *of_peer;
	if (GET(sk, __sk_common.skc_family) == 1) { // AF_UNIX
		of_peer = begun((u64)GET((struct unix_sock *)sk, peer));
	} else {
		u32 near = GET(sk, __sk_common.skc_num);
		u32 far = swapped(GET(sk, __sk_common.skc_dport));
		if (!(thread->series & OF_SERVER)) {
			remember(ports_key(near, far), thread_key);
			return;
		}
		of_peer = begun(ports_key(far, near));
	}
	of_peer = of_peer && thread->series & OF_SERVER ? begun(of_peer->since) : 0;
	if (of_peer && !(of_peer->series & OF_SERVER))
		thread->series = (thread->series & ~(u32)PAUSED) | OF_SESSION | (of_peer->series & PAUSED);
}

INLINE u64 fourth_argument(void *registers)
{
	if (EXISTS(struct pt_regs___x86, r10))
		return ((struct pt_regs___x86 *)registers)->r10;
	if (EXISTS(struct pt_regs___arm, regs))
		return ((struct pt_regs___arm *)registers)->regs[3];
	return 0;
}

SEC("tp_btf/sys_enter") int enter(u64 *arguments)
{
	u64 number = arguments[1];
	u32 call = number < CALLS ? kinds[number] : NO_CALL;
	if (call == NO_CALL)
		return 0;
	// A session sleeps with a limit, and waits for a lock without one.
	if (call == FUTEX_CALL)
		call = fourth_argument((void *)arguments[0]) ? SLEEP_CALL : NO_CALL;
	struct slot *slot = current_slot(call);
	if (!slot)
		return 0;
	u64 now = ktime_get_ns();
	u32 state = slot->series & ~(u32)CALL_MASK;
	u32 was_in_span = state & IN_SPAN;
	if (call == SEND_CALL)
		state = (state & ~(u32)IN_SPAN) | SENT;
	if (!(state & OF_SERVER) && call >= PAUSE_CALL)
		state = call == PAUSE_CALL ? state | PAUSED : state & ~(u32)PAUSED;
	change(slot, state | call << CALL_SHIFT, now);
	if (call == SEND_CALL) {
		slot->mark = 0;
		if (was_in_span && !(state & PAUSED))
			add(base_of(state) + SPAN, now - slot->since);
	}
	if (call == RECEIVE_CALL)
		owns_socket((void *)arguments[0], slot);
	return 0;
}

SEC("tp_btf/sys_exit") int leave(u64 *arguments)
{
	struct slot *slot = begun(key_of(current_pid_tgid()));
	if (!slot)
		return 0;
	u32 call = call_of(slot->series);
	if (call == NO_CALL)
		return 0;
	u64 now = ktime_get_ns();
	u32 state = slot->series & ~(u32)CALL_MASK;
	u32 has_received = call == RECEIVE_CALL && (long long)arguments[1] > 0;
	if (has_received) {
		state &= ~(u32)SENT;
		if (state & OF_SERVER && !(state & IN_SPAN)) {
			state |= IN_SPAN;
			slot->since = now;
		}
	}
	change(slot, state, now);
	if (has_received)
		slot->mark = 0;
	return 0;
}

INLINE u32 blocks(struct task_struct *task)
{
	u32 state;
	if (EXISTS(struct task_struct___now, __state))
		state = ((struct task_struct___now *)task)->__state;
	else
		state = ((struct task_struct___before *)task)->state;
	return state & ~0x200; // TASK_WAKING
}

SEC("tp_btf/sched_switch") int switched(u64 *arguments)
{
	struct task_struct *before = (struct task_struct *)arguments[1];
	struct task_struct *next = (struct task_struct *)arguments[2];
	u64 key = key_of(((struct task_struct___now *)before)->pid);
	struct slot *slot = begun(key);
	if (slot) {
		u32 blocked = arguments[0] ? 0 : blocks(before);
		u32 mode = blocked ? BLOCKED : READY;
		change(slot, (slot->series & ~(u32)MODES) | mode, ktime_get_ns());
		if (blocked & 0x80) // TASK_DEAD
			slot->key = key;
	}
	slot = begun(key_of(((struct task_struct___now *)next)->pid));
	if (slot)
		change(slot, slot->series & ~(u32)MODES, ktime_get_ns());
	return 0;
}

// Something arrives at a socket: its thread has the turn, even if it cannot run yet.
SEC("tp_btf/sk_data_ready") int arrived(u64 *arguments)
{
	u64 key = 0;
	probe_read_kernel(&key, sizeof key, arguments);
	struct slot *of_socket = begun(key);
	struct slot *slot = of_socket ? begun(of_socket->since) : 0;
	if (!slot || slot->mark || slot->series & IN_SPAN || !(slot->series & (SENT | OF_SERVER)))
		return 0;
	if (slot->series & MODES)
		change(slot, slot->series, ktime_get_ns());
	slot->mark = 1;
	return 0;
}

// Someone asks to run the thread: from now on it waits for a processor.
SEC("tp_btf/sched_waking") int waking(u64 *arguments)
{
	struct slot *slot = begun(key_of(((struct task_struct___now *)arguments[0])->pid));
	if (slot && (slot->series & MODES) == BLOCKED)
		change(slot, (slot->series & ~(u32)MODES) | READY, ktime_get_ns());
	return 0;
}
