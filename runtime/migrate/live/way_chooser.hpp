#pragma once

#include "migrate/live/live_chunk.hpp"
#include "migrate/live/live_way.hpp"
#include "migrate/migration/move_parts.hpp"

namespace vma {

/// Chooses how each chunk of a live move moves (`choose_way`), by the streams that are attached
/// now. Remembers that a thread has blocked the application's context. Only the thread of the move
/// calls it.
class WayChooser {
 public:
  explicit WayChooser(const MoveParts& parts) : parts_(parts) {}

  WayChoice choose(const LiveChunk& chunk) const;
  /// Throws: Error{unsupported} if the chunk cannot move in the way that was chosen for it.
  static void require(const LiveChunk& chunk);
  /// The next chunks settle in a context of the runtime's own: a thread has blocked that of the
  /// application.
  void leave_application_context() noexcept;
  /// A chunk has moved.
  void note_moved() noexcept;

 private:
  StopKind stop_for(const LiveChunk& chunk) const;

  const MoveParts& parts_;
  int chunks_beside_ = 0;  // That still settle in a context of the runtime's own.
};

}  // namespace vma
