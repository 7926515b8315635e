#pragma once
/// Operations under way, of each group in the order of their starts. The engine is given a few of
/// each group at a time, since each takes memory of it and only the oldest move; the others follow
/// as those end.

#include "integrations/mpi/operations.h"

namespace ibcoll::mpi {

/// Whether the engine can be given the group's next operation at once: none waits before it.
bool may_post(const Communicator& on);
/// Adds one that is claimed: that the engine has been given, or that follows later.
void add_under_way(Operation& operation, bool posted);
void remove_under_way(Operation& operation);
/// Takes those out that have ended, claims them and links them by `next`; gives the engine others.
/// `over`: the job has ended, and so have all of them. Null: none, or another thread is at it.
Operation* take_ended(bool over);
/// Gives the engine this one, those of its group before it, and those of all other groups: who
/// waits for it does not come back to move them on, and others may wait for any of them.
void post_before_waiting_for(Operation& operation);

/// Prepares and starts it. Its buffers are loaded.
ibcoll_status give_to_engine(Operation& operation);

}  // namespace ibcoll::mpi
