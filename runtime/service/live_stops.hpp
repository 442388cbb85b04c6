#pragma once

#include "base/executor.hpp"

#include <vma/calibration.hpp>
#include <vma/runtime.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace vma {

/// What live moves take, and how long they keep streams standing: on each route two chunks change
/// places again and again while a thread for each GPU has it read its own memory on an attached
/// stream, launch after launch, as a program does. `Calibrator` stops nobody, and so leaves out
/// what gates cost by themselves. One object a run.
class LiveStops {
 public:
  /// Of the chunks that move, two sizes, and of what each GPU reads meanwhile.
  struct Sizes {
    std::size_t small_bytes = 0, large_bytes = 0, read_bytes = 0;
  };

  /// Requires: the runtime outlives it, and no stream of it is attached: all would stand too.
  LiveStops(Runtime& runtime, const Sizes& sizes);
  /// Gives back what it took; what cannot be given back is logged.
  ~LiveStops();
  LiveStops(const LiveStops&) = delete;
  LiveStops& operator=(const LiveStops&) = delete;

  /// Replaces moves and stalls in `calibration`, and names the routes where it could not.
  /// Requires: it is of this runtime's machine. Throws: Error{driver_gone}. Blocks: some
  /// milliseconds a move, and as often as there are routes.
  void measure(Calibration& calibration);

 private:
  class Reader;
  struct Times {
    std::vector<Time> moves, stalls;
  };
  struct Route {
    Times there, back;
  };

  void open_readers();
  void swap(const std::array<std::byte*, 2>& chunks, Location home, Location away, Route* route);
  Route measure(Location home, Location away, std::size_t bytes);
  void take(Calibration& calibration, PlaceId from, PlaceId to, Times& small, Times& large) const;
  void free(std::byte* pointer) noexcept;

  Runtime& runtime_;
  const Sizes sizes_;
  ThreadedExecutor executor_;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace vma
