#pragma once

namespace vma {

/// Ends the process with status 3 unless it is fed, or ends, before each limit:
/// VMART_BENCH_WATCHDOG_SECONDS, 30 unless set. It has the process's one alarm: the
/// last that was fed counts.
class HangAlarm {
 public:
  HangAlarm();
  ~HangAlarm();
  HangAlarm(const HangAlarm&) = delete;
  HangAlarm& operator=(const HangAlarm&) = delete;

  void feed();

 private:
  unsigned limit_s_;
};

}  // namespace vma
