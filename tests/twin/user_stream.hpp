#pragma once

#include "twin/twin_world.hpp"

#include <functional>
#include <random>

namespace vma {

/// A stream of the program, attached while it lives if the plan says so. Used by the thread that
/// made it.
class UserStream {
 public:
  enum class Kind { non_blocking, blocking, legacy, per_thread };

  UserStream(TwinWorld& world, int gpu, Kind kind);
  /// Waits for its work, detaches and destroys it; a failure fails the play.
  ~UserStream();
  UserStream(const UserStream&) = delete;
  UserStream& operator=(const UserStream&) = delete;

  BoundStream bound() const { return bound_; }
  int gpu() const { return gpu_; }

  void add(const TwinSpan& span, const TwinAdds& adds) { world_.add(bound_, gpu_, span, adds); }
  /// Blocks until everything enqueued has finished.
  void wait() { world_.machine().wait_stream(bound_, never); }
  /// Records an event for others to wait for.
  void record();
  /// Makes later work wait for what another stream recorded.
  void wait_for_another(std::mt19937_64& random);

 private:
  void insist(const std::function<void()>& call);

  TwinWorld& world_;
  const int gpu_;
  const Kind kind_;
  BoundStream bound_;
  EventHandle event_{};
};

}  // namespace vma
