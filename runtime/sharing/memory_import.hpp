#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "sharing/import_follower.hpp"
#include "sharing/share_protocol.hpp"
#include "sharing/share_channel.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// How to import.
struct ImportRequest {
  std::string path;
  std::string tag;                         ///< Empty: that of the exporter.
  std::chrono::milliseconds limit{5'000};  ///< See `import_time`.
  std::vector<unsigned> users;  ///< Whose memory is accepted, besides that of this user and root.
};

/// One import: asks the exporter at a path for its memory, chunk by chunk, and makes an allocation
/// of it. One thread; an object for each import.
///
/// The connection stays open for as long as the allocation exists, and tells the exporter that its
/// memory is in use. When it ends on the other side, the allocation keeps its memory. Until then,
/// the allocation follows when the exporter moves it (`ImportFollower`).
class MemoryImport {
 public:
  /// Requires: all outlive it, and `stop` and `follower` all that it makes.
  MemoryImport(Memory& memory, const PlaceNames& places, const ShareStop& stop,
               ImportFollower& follower);

  /// Throws: Error{peer_failure, not_permitted, busy, unreachable, unsupported, out_of_memory}, and
  /// what the exporter refuses with; {driver_gone} once `stop` is raised. Then nothing is left of
  /// the import. Blocks: until the limit, and in the driver.
  std::shared_ptr<Allocation> run(const ImportRequest& request);

 private:
  std::string check_exporter(const ImportRequest& request) const;
  ShareMessage ask(const ShareMessage& question, ShareKind expected);
  void check_offer(const ShareMessage& offer) const;
  void take_chunks(const Geometry& geometry, std::vector<Chunk>& chunks);

  Memory& memory_;
  const PlaceNames& places_;
  const ImportedChunks chunks_;
  const ShareStop& stop_;
  ImportFollower& follower_;
  TimePoint deadline_{0};
  std::shared_ptr<ShareChannel> channel_;
};

}  // namespace vma
