#pragma once

namespace vma {

/// Ends the process with status 3 unless it is fed or destroyed within each limit of
/// VMART_BENCH_WATCHDOG_SECONDS (30). Uses the process's only alarm, so only the alarm that was fed
/// last counts.
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
