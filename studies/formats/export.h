#pragma once
/// From the engine's programs to others' forms.

#include <cstdint>
#include <string>

#include "engine/schedule/json.h"
#include "studies/formats/msccl.h"

namespace ibcoll::formats {

/// As an MSCCL program: a threadblock for each peer to send to, one for each to receive from, and
/// one for what a rank does alone. What was imported comes back as the same programs. Streams are
/// left to MSCCL, which cuts all chunks by itself. Fails (kUnsupported) where MSCCL has no such
/// collective or operation: tokens, gates, an order of ranks.
Result<MscclProgram> export_msccl(const LoadedSchedule& schedule);

/// As a schedule in the text form of GOAL (Hoefler, Siebert, Lumsdaine 2009), which LogGOPSim
/// replays: messages, tokens and what comes after what, for blocks of so many bytes. What a rank
/// does alone takes no time, exposures are left out, and streams have one piece. Fails
/// (kUnsupported) where ranks of a server wait for each other at gates.
Result<std::string> export_goal(const LoadedSchedule& schedule, uint64_t block_bytes);

}  // namespace ibcoll::formats
