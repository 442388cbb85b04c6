#pragma once

#include "control/descriptor.hpp"
#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

// The protocol between the process that exports an allocation and one that imports it, over a Unix
// socket that keeps the borders of messages. The importer asks, the exporter answers:
//
//     hello        ->            the GPUs that the importer uses
//                                (the exporter moves the memory to one of them, or to the host)
//                  <-  offer     how the memory is cut, and its tag
//     ask(first)   ->
//                  <-  chunks    up to `chunks_in_message_max`, with a descriptor for each
//     ...
//     ready        ->            all descriptors have arrived
//                  <-  done      the exporter keeps the memory in place from here on
//
// Then the connection stands for the import: it ends when either process ends it or dies. Instead
// of any answer, and before any question, the exporter may send a refusal, and ends the connection.
// When the memory moves:
//
//                  <-  move      how many chunks there will be, and how long all may take; with the
//                                descriptor of a SharedDecision
//     ask(first)   ->
//                  <-  chunks    as above; each names its slot
//     ...
//     ready        ->            all that may fail has been done
//                  <-  stop
//     stopped      ->            no work runs, until the move is decided
//     ended        ->            the importer uses one of both memories, and lets go of the other
//
// The decision itself is no message, and what is sent after one to stay is ignored up to `ended`.
// Instead of `ready` or `stopped` the importer may send a refusal, and then `ended`.
// Only the process that connected, and the one that listens, may send: each side compares the
// sender that the kernel reports with each message (`SCM_CREDENTIALS`). Each message begins with
// a magic number, the version and its kind; these stay the same in all versions, so that processes
// of different versions can tell each other. The version of a message is the one that gave its kind
// the present form, so that two processes understand each other as far as their messages are alike.

inline constexpr const char* export_call = "vma::export_allocation";
inline constexpr const char* import_call = "vma::import_allocation";

constexpr std::uint32_t share_version = 4;
constexpr std::uint32_t share_version_oldest = 3;  ///< Its `hello` names no GPUs.
constexpr std::size_t share_message_bytes_max = 16384;
constexpr std::size_t chunks_in_message_max = 32;  ///< The kernel passes at most 253 descriptors.
constexpr std::size_t gpus_in_hello_max = 128;
constexpr std::uint64_t shared_slots_max = std::uint64_t{1} << 20;
constexpr std::size_t shared_text_bytes_max = 1024;  ///< Longer ones are cut.

/// How long an import of so many chunks may take; both sides count in this way.
constexpr std::chrono::milliseconds import_time(std::chrono::milliseconds limit,
                                                std::uint64_t slots) {
  constexpr std::chrono::milliseconds most = std::chrono::hours(24);
  constexpr std::uint64_t slots_for_limit = 256;
  const std::uint64_t parts = (std::min(slots, shared_slots_max) - 1) / slots_for_limit + 1;
  return std::min(limit, most) * parts;
}

enum class ShareKind : std::uint32_t {
  hello = 1,
  offer,
  ask,
  chunks,
  ready,
  refusal,
  done,
  move,
  stop,
  stopped,
  ended
};

/// A place as both processes know it, whatever numbers they give to GPUs.
struct SharedPlace {
  std::string gpu;  ///< What identifies a GPU on the machine; empty for a host node.
  std::uint32_t node = 0;
  friend bool operator==(const SharedPlace&, const SharedPlace&) = default;
};

struct SharedChunk {
  SharedPlace at;
  std::uint64_t size_bytes = 0;
  std::uint64_t slot = 0;
};

/// One message; which fields mean something depends on the kind.
struct ShareMessage {
  ShareKind kind = ShareKind::hello;
  std::vector<std::string> gpus{};  ///< Of `hello`, as in SharedPlace; empty: it names none.
  Geometry geometry{};              ///< Of an offer.
  std::string tag{};                ///< Of an offer.
  std::uint64_t first = 0;  ///< Number of a chunk, of `ask` and `chunks`; of all, of `move`.
  std::chrono::milliseconds limit{0};             ///< Of `move`: for each answer.
  std::chrono::milliseconds decision_limit{0};    ///< Of `move`: from `stopped` on.
  std::chrono::nanoseconds stall{0};              ///< Of `ended`: how long the work was stopped.
  std::vector<SharedChunk> chunks{};              ///< Of `chunks`.
  ErrorKind error = ErrorKind::invalid_argument;  ///< Of a refusal.
  std::string text{};                             ///< Of a refusal.
  std::vector<Descriptor> descriptors{};          ///< Travel beside the bytes.
};

/// Requires: within the limits above; longer texts are cut.
std::vector<std::byte> encode(const ShareMessage& message);
/// Throws: Error{unsupported} for a version that is older or newer, Error{peer_failure} for
/// anything that `encode` does not write.
ShareMessage decode(std::span<const std::byte> bytes);

/// The places of this process by names that another process on the machine understands: GPUs by
/// their UUID, because each process may number them otherwise (CUDA_VISIBLE_DEVICES). GPUs of
/// simulated machines go by their bus id, as each process has a machine of its own. Immutable.
class PlaceNames {
 public:
  PlaceNames(Driver& driver, const Topology& topology);

  SharedPlace name(Place at) const;
  /// None if this process does not use the place.
  std::optional<Place> find(const SharedPlace& place) const;
  /// Of all GPUs of this process, in its order.
  std::vector<std::string> gpus() const;
  /// The GPUs of this process among those that another one uses.
  std::vector<Place> find_gpus(std::span<const std::string> names) const;

 private:
  const Topology& topology_;
  std::map<std::string, Place> gpus_;
};

}  // namespace vma
