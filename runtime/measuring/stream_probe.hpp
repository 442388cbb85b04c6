#pragma once

#include "driver/driver.hpp"
#include "measuring/measured_calls.hpp"

#include <cstdint>
#include <functional>

namespace vma {

/// Times calls on a stream of the first GPU, and the duration of a kernel and of copies. One object
/// per run, one thread.
class StreamProbe {
 public:
  /// Requires: `context` belongs to the first GPU, and nothing else runs there.
  StreamProbe(Driver& driver, ContextHandle context);
  ~StreamProbe();
  StreamProbe(const StreamProbe&) = delete;
  StreamProbe& operator=(const StreamProbe&) = delete;

  /// Throws: Error{driver_gone}.
  void measure(MeasuredCalls& calls);

 private:
  /// The median of several calls. Runs `after` after each call, untimed.
  double each(const std::function<void()>& call, const std::function<void()>& after = {});
  /// Duration of the whole copy, from the call to its end.
  double copy_us(Place from, Place to, std::uint64_t bytes);
  void settle();

  void measure_streams(MeasuredCalls& calls);
  void measure_plain(MeasuredCalls& calls);
  void measure_kernel(MeasuredCalls& calls);
  void measure_copies(MeasuredCalls& calls);

  Driver& driver_;
  Clock& clock_;
  const ContextHandle context_;
  const BoundStream stream_;
};

}  // namespace vma
