#pragma once

#include "placement/deciding/decision_path.hpp"
#include "scheduling/chunk_roster.hpp"
#include "scheduling/decision_journal.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// Text for people: where the chunk in a slot of an allocation is, which GPUs use it, what keeps it
/// there, and the last decisions about it.
std::vector<std::string> explain_chunk(const ChunkRoster::Entry& entry, std::uint32_t slot,
                                       const Snapshot& snapshot, const ChunkRoster& roster,
                                       const DecisionJournal& journal, bool paused);

}  // namespace vma
