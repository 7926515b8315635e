#pragma once
/// What system_calls.cc asks of the bed. All of it is about the fiber that runs.

#include <cstddef>
#include <cstdint>

#include "engine/sharing/test_hooks.h"

namespace ibcoll::lockstep::machine {

/// Whether a fiber runs, so that its system calls are the bed's to answer; else they are the
/// kernel's.
bool in_fiber();
/// Whether a job is under way: then time is the bed's outside of fibers, too.
bool active();

inline constexpr int kFirstPid = 100'001;

/// By the clock of the process that runs.
int64_t now_ns();
/// By nobody's.
int64_t true_ns();
int process_id();
/// The process of a process id; -1: none.
int process_of(int pid);
bool is_dead(int process);
/// A descriptor that is readable once that process has ended.
int end_of(int process);
/// Such a one of a rank's own; closed with forget_descriptor().
int open_end_of(int process);
/// The process that a descriptor of that kind is of; -1: it is none.
int process_of_descriptor(int fd);
void forget_descriptor(int fd);
/// How a process that has ended did so, as waitpid() gives it.
int status_of(int process);
int current_process();

/// Lets another one run first.
void yield();
/// Until then or, where the seed says so, a bit later.
void sleep_until(int64_t ns);

/// Sleeps on a key until woken or until that time (0: for ever). False: the time has come.
bool wait_on(uint64_t key, int64_t until_ns);
/// Wakes up to `most` of those that sleep on a key; how many.
int wake(uint64_t key, int most);
/// Where a word of shared memory lies: the same key in all mappings of it.
uint64_t key_of(const void* word);
void note_mapping(void* address, size_t bytes, int fd, int64_t offset);
void forget_mapping(void* address, size_t bytes);
/// Stores of all fibers are visible to all.
void fence_everybody();

/// A new thread of the same process.
uint64_t start_thread(void* (*body)(void*), void* argument);
void* join_thread(uint64_t thread);
uint64_t current_thread();
/// Which process a thread is of; for owners of locks.
bool is_thread_dead(uint64_t thread);

/// Whether processes can't read or write each other's private memory.
bool forbids_process_vm();
/// Whether this request for shared memory is refused.
bool refuses_memory();
/// Whether this one for private memory is.
bool refuses_heap();
/// Whether this system call fails.
bool refuses_call();
/// Data have come to the one who runs: a bit of them may be flipped.
void data_came(void* data, size_t bytes);
/// Whether nothing is written to that process's memory any more.
bool is_let_go(int process);
/// Whether the kernel lets this process fence for nobody else.
bool forbids_membarrier();
/// Whether what looks for room there finds none this time, whatever there is.
bool refuses_room(Room room);
/// What a copy is said to have taken; 0: nobody knows.
int64_t copy_ns();
/// How many cores the ranks may run on, as the kernel says.
int cores();
/// Something has changed that others may wait for.
void note_change();

}  // namespace ibcoll::lockstep::machine
